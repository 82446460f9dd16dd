// What a transport makes of the options that a queue pair is asked for with.
#pragma once

#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/result.hpp>

namespace cordma::transport {

// invalid_value where a bit is set that is no right.
[[nodiscard]] result<void> check_rights(access rights);

// not_supported where `caps` have not the kind of this memory; names the transport and the kind.
[[nodiscard]] result<void> check_memory(const memory_range& range, const capabilities& caps);

// As they will be granted: as asked, a depth of 0 counts as 1, with a receive_queue recv_depth is 0, and what is no more
// than the default is lowered to what `caps` have.
// not_supported: `caps` lack the service, plain peers or receive queues, or they are not for it;
// invalid_value: another number is more than they have, a time is negative or none, an unknown right. The
// sentence names it and the most there is.
[[nodiscard]] result<queue_pair_options> grant(const queue_pair_options& asked,
                                               const capabilities& caps);

}  // namespace cordma::transport
