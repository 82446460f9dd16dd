// folder_lock: that nobody else writes where a server does.
#pragma once

#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/result.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <string>

namespace kv {

// The folder's own descriptor, locked (flock): nobody else gets it until it is closed, or this process has ended, however
// it does; nothing is left in the folder. Where the file system is another host's, only this host's processes are kept
// away. Who has it is waited for up to `patience`: one that was killed lets go when the kernel is done with it.
// Errors: in_use, naming the process where that is known, and the folder; the system's: it cannot be opened or locked.
[[nodiscard]] cordma::result<cordma::unique_fd> lock_folder(const std::string& folder,
                                                            cordma::duration patience = {});

}  // namespace kv
