// Computes the options that a transport grants to a queue pair.
#pragma once

#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/result.hpp>

namespace cordma::transport {

// invalid_value: a bit is set that is no right.
[[nodiscard]] result<void> check_rights(access rights);

// not_supported: `caps` do not include this kind of memory; the message names the transport and the
// kind.
[[nodiscard]] result<void> check_memory(const memory_range& range, const capabilities& caps);

// Returns the options to grant: those requested, with these changes. A depth of 0 becomes 1,
// recv_depth is 0 with a receive_queue, and a value of at most the default is lowered to the limit
// of `caps`.
// not_supported: `caps` lack the service, plain peers or receive queues, or these do not fit the
// service; invalid_value: another number exceeds the capabilities, a time is not positive, or a
// right is unknown. The message names the field and its limit.
[[nodiscard]] result<queue_pair_options> grant(const queue_pair_options& asked,
                                               const capabilities& caps);

}  // namespace cordma::transport
