// SPDX-License-Identifier: Apache-2.0
// A symbolised backtrace on stderr when the process dies of a signal (SIGSEGV, SIGBUS, SIGFPE,
// SIGILL, SIGABRT) or of an exception nobody caught. The handler only calls functions that are safe
// there, or (dladdr, demangling) ones that at worst hang; an alarm ends the process then. The
// signal is raised again, so the exit status is what it would have been.
#pragma once

namespace tutti {

// REQUIRES: called once, at the start of main. Executables link with -rdynamic for names.
void InstallCrashHandler();

}  // namespace tutti
