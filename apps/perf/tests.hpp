// The measured loops, one pair of coroutines per shape. `count` messages; both sides know it.
// They throw cordma::error when an operation fails.
#pragma once

#include "lane.hpp"

#include <cordma/runtime/task.hpp>

namespace perf {

// ping_pong by messages, plain or tagged.
cordma::task<void> send_and_wait(lane& l, std::uint64_t count);
// With `think_us` between a message that came back and the next one.
cordma::task<void> send_wait_think(lane& l, std::uint64_t count);
cordma::task<void> echo(lane& l, std::uint64_t count);
// ping_pong by remote writes.
cordma::task<void> write_and_look(lane& l, std::uint64_t count);
cordma::task<void> look_and_write(lane& l, std::uint64_t count);
// one_by_one.
cordma::task<void> read_each(lane& l, std::uint64_t count);
cordma::task<void> fetch_add_each(lane& l, std::uint64_t count);
// in_flight; on return everything is visible at the server.
cordma::task<void> write_many(lane& l, std::uint64_t count);
cordma::task<void> read_many(lane& l, std::uint64_t count);
cordma::task<void> fetch_add_many(lane& l, std::uint64_t count);
// to_receiver, plain or tagged.
cordma::task<void> send_many(lane& l, std::uint64_t count);
cordma::task<void> receive_many(lane& l, std::uint64_t count);

// ping_pong by active messages, from handler to handler. The client sends the first one; both wait for the last.
cordma::task<void> answer(lane* l, cordma::ActiveMessage m);
cordma::task<void> call_first(lane& l, std::uint64_t count);
cordma::task<void> answer_all(lane& l, std::uint64_t count);
// to_receiver by a stream.
cordma::task<void> write_stream(lane& l, std::uint64_t count);
cordma::task<void> read_stream(lane& l, std::uint64_t count);

// What the server does to its memory before a phase, and how it looks at it after: --check.
void prepare_memory(lane& l);
void inspect_memory(lane& l, std::uint64_t count);

// The client's part, and the server's; a null task where that side only makes progress.
[[nodiscard]] cordma::task<void> client_side(lane& l, std::uint64_t count);
[[nodiscard]] cordma::task<void> server_side(lane& l, std::uint64_t count);

}  // namespace perf
