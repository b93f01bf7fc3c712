// SPDX-License-Identifier: Apache-2.0
#include "operator/backtrace.h"

#include <csignal>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti {

// Not static and not inlined, so that the symbol is there to be found.
__attribute__((noinline)) void CrashHereForTest(volatile int* target) {
  *target = 1;
}

// NOLINTNEXTLINE(misc-no-recursion)
__attribute__((noinline)) int OverflowForTest(int depth) {
  volatile char big[4096];
  big[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : OverflowForTest(depth + 1) + big[0];
}

__attribute__((noinline)) void ThrowForTest() {
  throw std::runtime_error("what went wrong");
}

namespace {

struct Outcome {
  int signal = 0;
  std::string output;
};

Outcome RunChild(const std::function<void()>& body) {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(fds[1], STDERR_FILENO);
    close(fds[0]);
    close(fds[1]);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    InstallCrashHandler();
    body();
    _exit(0);
  }
  close(fds[1]);
  Outcome outcome;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(fds[0], buffer, sizeof buffer)) > 0) {
    outcome.output.append(buffer, static_cast<size_t>(got));
  }
  close(fds[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return outcome;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(BacktraceTest, SegmentationFaultNamesTheFunctionAndKeepsTheSignal) {
  const Outcome outcome = RunChild([] { CrashHereForTest(nullptr); });
  EXPECT_EQ(outcome.signal, SIGSEGV);
  EXPECT_THAT(outcome.output, testing::HasSubstr("died of SIGSEGV at address 0x0"));
  EXPECT_THAT(outcome.output, testing::HasSubstr("tutti::CrashHereForTest(int volatile*)"));
}

TEST(BacktraceTest, StackOverflowIsReportedToo) {
  const Outcome outcome = RunChild([] { OverflowForTest(0); });
  EXPECT_EQ(outcome.signal, SIGSEGV);
  EXPECT_THAT(outcome.output, testing::HasSubstr("tutti::OverflowForTest(int)"));
}
#endif

TEST(BacktraceTest, AbortKeepsTheSignal) {
  const Outcome outcome = RunChild([] { std::abort(); });
  EXPECT_EQ(outcome.signal, SIGABRT);
  EXPECT_THAT(outcome.output, testing::HasSubstr("died of SIGABRT"));
}

TEST(BacktraceTest, UncaughtExceptionSaysWhat) {
  const Outcome outcome = RunChild([]() noexcept { ThrowForTest(); });
  EXPECT_EQ(outcome.signal, SIGABRT);
  EXPECT_THAT(outcome.output, testing::HasSubstr("exception was not caught: what went wrong"));
  EXPECT_THAT(outcome.output, testing::HasSubstr("died of SIGABRT"));
}

}  // namespace
}  // namespace tutti
