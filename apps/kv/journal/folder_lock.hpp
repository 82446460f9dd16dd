// folder_lock: keeps other processes from writing to a server's folder.
#pragma once

#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/result.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <string>

namespace kv {

// Opens the folder and locks its descriptor (flock). The lock lasts until the descriptor is closed
// or this process ends in any way; no file is left in the folder. On a network file system only
// processes of this host are kept away. If another process has the lock, waits up to `patience`: a
// killed process releases it once the kernel has ended it. Errors: in_use, naming the folder and,
// if it is known, the process; the system's, if the folder cannot be opened or locked.
[[nodiscard]] cordma::result<cordma::unique_fd> lock_folder(const std::string& folder,
                                                            cordma::duration patience = {});

}  // namespace kv
