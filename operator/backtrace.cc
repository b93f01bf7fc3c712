// SPDX-License-Identifier: Apache-2.0
#include "operator/backtrace.h"

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include "operator/version.h"

namespace tutti {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int kMaxFrames = 64;
constexpr unsigned kSecondsToPrint = 10;
constexpr size_t kStackBytes = 256 * 1024;

// No allocation, no stdio.
void Put(const char* text) {
  size_t left = std::strlen(text);
  while (left > 0) {
    const ssize_t written = write(STDERR_FILENO, text, left);
    if (written <= 0) {
      return;
    }
    text += written;
    left -= static_cast<size_t>(written);
  }
}

void PutHex(uintptr_t value) {
  std::array<char, 19> digits{};
  size_t at = digits.size() - 1;
  do {
    digits[--at] = "0123456789abcdef"[value & 15U];
    value >>= 4U;
  } while (value != 0);
  Put("0x");
  Put(&digits[at]);
}

void PutNumber(unsigned value) {
  std::array<char, 12> digits{};
  size_t at = digits.size() - 1;
  do {
    digits[--at] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  Put(&digits[at]);
}

uintptr_t AddressOf(const void* pointer) {
  uintptr_t value = 0;
  static_assert(sizeof value == sizeof pointer);
  std::memcpy(&value, &pointer, sizeof value);
  return value;
}

const char* SignalName(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL";
    case SIGABRT:
      return "SIGABRT";
    default:
      return "signal";
  }
}

void PutFrame(unsigned number, const void* address) {
  Put("  #");
  PutNumber(number);
  Put(" ");
  PutHex(AddressOf(address));
  Dl_info info{};
  if (dladdr(address, &info) == 0) {
    Put("\n");
    return;
  }
  if (info.dli_sname != nullptr) {
    int status = -1;
    // Allocates: after everything essential of this frame is written.
    char* plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    Put(" ");
    Put(status == 0 ? plain : info.dli_sname);
    std::free(plain);
    Put("+");
    PutHex(AddressOf(address) - AddressOf(info.dli_saddr));
  }
  if (info.dli_fname != nullptr) {
    // File and offset in it: what addr2line needs.
    Put(" (");
    Put(info.dli_fname);
    Put("+");
    PutHex(AddressOf(address) - AddressOf(info.dli_fbase));
    Put(")");
  }
  Put("\n");
}

void PutBacktrace() {
  std::array<void*, kMaxFrames> frames{};
  const int count = backtrace(frames.data(), kMaxFrames);
  // First the bare addresses, which need nothing; then with names.
  Put("addresses:");
  for (int i = 0; i < count; ++i) {
    Put(" ");
    PutHex(AddressOf(frames[static_cast<size_t>(i)]));
  }
  Put("\n");
  for (int i = 0; i < count; ++i) {
    PutFrame(static_cast<unsigned>(i), frames[static_cast<size_t>(i)]);
  }
}

void OnSignal(int signal, siginfo_t* info, void* /*context*/) {
  // SA_RESETHAND: a second fault inside ends the process at once.
  alarm(kSecondsToPrint);
  Put("\ntutti ");
  Put(kVersionText);
  Put(" died of ");
  Put(SignalName(signal));
  if (signal == SIGSEGV || signal == SIGBUS) {
    Put(" at address ");
    PutHex(AddressOf(info->si_addr));
  }
  Put("\n");
  PutBacktrace();
  raise(signal);
}

void OnTerminate() {
  Put("\ntutti: an exception was not caught: ");
  if (const std::exception_ptr current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception& error) {
      Put(error.what());
    } catch (...) {
      Put("not a std::exception");
    }
  }
  Put("\n");
  std::abort();
}

}  // namespace

void InstallCrashHandler() {
  // The first call loads libgcc; that must not happen inside a handler.
  std::array<void*, 2> warm_up{};
  (void)backtrace(warm_up.data(), static_cast<int>(warm_up.size()));
  // A stack of its own, or the overflow of the normal one could not be reported.
  static std::array<char, kStackBytes> stack;
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);
  for (const int signal : kSignals) {
    struct sigaction action {};
    action.sa_sigaction = OnSignal;
    action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND | SA_NODEFER);
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
  std::set_terminate(OnTerminate);
}

}  // namespace tutti
