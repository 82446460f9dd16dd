// The measured loops, a pair of coroutines for each pattern. `count` is the number of requests of
// one flow; both sides know it. They throw cordma::error when an operation fails.
#pragma once

#include "lane.hpp"

#include <cordma/runtime/task.hpp>

namespace perf {

// Sequential messages that the peer echoes, with a pause between them if the plan has one.
cordma::task<void> send_and_wait(lane& l, std::uint64_t count);
cordma::task<void> echo(lane& l, std::uint64_t count);
// Likewise by remote writes; each side polls its memory.
cordma::task<void> write_and_look(lane& l, std::uint64_t count);
cordma::task<void> look_and_write(lane& l, std::uint64_t count);
// Likewise by a stream.
cordma::task<void> write_and_read(lane& l, std::uint64_t count);
cordma::task<void> read_and_write(lane& l, std::uint64_t count);
// Sequential requests that only this side is involved in.
cordma::task<void> one_by_one(lane& l, std::uint64_t count);
// Several requests at a time, or at scheduled times; the peer echoes messages.
cordma::task<void> request_many(lane& l, std::uint64_t count);
cordma::task<void> echo_many(lane& l, std::uint64_t count);

// Many requests in flight. All remote writes are visible at the peer on return.
cordma::task<void> start_many(lane& l, std::uint64_t count);
// The peer's part if messages are received.
cordma::task<void> receive_many(lane& l, std::uint64_t count);
// Reads message `i` of a stream completely.
cordma::task<void> read_message(lane& l, std::uint64_t i);
cordma::task<void> write_stream(lane& l, std::uint64_t count);
cordma::task<void> read_stream(lane& l, std::uint64_t count);

// The handler of active messages on either side:
cordma::task<void> handle(lane* l, cordma::ActiveMessage m);
// a plain function, if all messages are eager and there is no pause;
void handle_short(lane* l, const cordma::ShortMessage& m);
// sequential messages, from handler to handler: the client sends the first one, and both wait for
// the last;
cordma::task<void> call_first(lane& l, std::uint64_t count);
cordma::task<void> answer_all(lane& l, std::uint64_t count);
// many messages, which the peer's handler only counts: answer_all() waits for them.
cordma::task<void> call_many(lane& l, std::uint64_t count);

// --check: prepares the memory of a side before a phase, and checks it afterwards.
void prepare_memory(lane& l);
void inspect_memory(lane& l, std::uint64_t count);

// --stall: the server does nothing for a while, in the middle of its loop.
void stall_if_due(lane& l, std::uint64_t i) noexcept;

// The client's part and the server's part; a null task if that side only makes progress.
[[nodiscard]] cordma::task<void> client_side(lane& l, std::uint64_t count);
[[nodiscard]] cordma::task<void> server_side(lane& l, std::uint64_t count);

}  // namespace perf
