// The measured loops, one pair of coroutines per shape. `count` requests of one flow; both sides know
// it. They throw cordma::error when an operation fails.
#pragma once

#include "lane.hpp"

#include <cordma/runtime/task.hpp>

namespace perf {

// One after the other, by messages that the peer sends back. With a pause between them where the plan
// has one.
cordma::task<void> send_and_wait(lane& l, std::uint64_t count);
cordma::task<void> echo(lane& l, std::uint64_t count);
// The same by remote writes, each side looking at its own memory.
cordma::task<void> write_and_look(lane& l, std::uint64_t count);
cordma::task<void> look_and_write(lane& l, std::uint64_t count);
// The same by a stream.
cordma::task<void> write_and_read(lane& l, std::uint64_t count);
cordma::task<void> read_and_write(lane& l, std::uint64_t count);
// One after the other, by this side alone.
cordma::task<void> one_by_one(lane& l, std::uint64_t count);
// Several at a time, or at times of their own; the peer echoes messages.
cordma::task<void> request_many(lane& l, std::uint64_t count);
cordma::task<void> echo_many(lane& l, std::uint64_t count);

// Many in flight. Of remote writes, all are visible at the peer on return.
cordma::task<void> start_many(lane& l, std::uint64_t count);
// The peer's part where messages are received.
cordma::task<void> receive_many(lane& l, std::uint64_t count);
// Message `i` of a stream, whole.
cordma::task<void> read_message(lane& l, std::uint64_t i);
cordma::task<void> write_stream(lane& l, std::uint64_t count);
cordma::task<void> read_stream(lane& l, std::uint64_t count);

// Active messages. Their handler, on either side:
cordma::task<void> handle(lane* l, cordma::ActiveMessage m);
// ... a plain function, where every message is short and nobody thinks in between.
void handle_short(lane* l, const cordma::ShortMessage& m);
// one after the other, from handler to handler: the client sends the first one; both wait for the last,
cordma::task<void> call_first(lane& l, std::uint64_t count);
cordma::task<void> answer_all(lane& l, std::uint64_t count);
// and many, which the peer's handler counts only: answer_all() waits for them.
cordma::task<void> call_many(lane& l, std::uint64_t count);

// What each side does to its memory before a phase, and how it looks at it after: --check.
void prepare_memory(lane& l);
void inspect_memory(lane& l, std::uint64_t count);

// A server that does nothing at all for a while, in the middle of its loop: --stall.
void stall_if_due(lane& l, std::uint64_t i) noexcept;

// The client's part, and the server's; a null task where that side only makes progress.
[[nodiscard]] cordma::task<void> client_side(lane& l, std::uint64_t count);
[[nodiscard]] cordma::task<void> server_side(lane& l, std::uint64_t count);

}  // namespace perf
