// A signal on which the whole process reports where it waits.
#pragma once

#include <cordma/runtime/result.hpp>

namespace cordma {

// From now on, at each `signal`, every reactor and Worker of this process writes its report (reactor::dump()) to standard
// error. Each thread writes those of its own reactors: the handler forwards the signal to the other threads by tgkill(2).
// It works in a process that is stuck, as long as the thread takes signals. Replaces the handler of `signal`; system
// calls that it interrupts go on (SA_RESTART). Reports of several threads may mix, line by line. Any thread.
// Errors: invalid_value (no such signal, or one that cannot be handled).
result<void> install_dump_handler(int signal);

}  // namespace cordma
