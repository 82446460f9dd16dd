// A signal handler that reports where the process waits.
#pragma once

#include <cordma/runtime/result.hpp>

namespace cordma {

// Installs a handler: at each `signal`, every reactor and Worker of this process writes its report
// (reactor::dump()) to standard error. Each thread writes the reports of its own reactors: the
// handler forwards the signal to the other threads by tgkill(2). It works in a process that is
// stuck, if the thread accepts signals. Replaces the handler of `signal`; interrupted system calls
// are restarted (SA_RESTART). Reports of several threads may mix, line by line. Any thread. Errors:
// invalid_value (no such signal, or one that cannot be handled).
result<void> install_dump_handler(int signal);

}  // namespace cordma
