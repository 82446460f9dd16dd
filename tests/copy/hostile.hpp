// Runs the real sender or receiver against a peer that a test plays frame by frame.
#pragma once

#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/timeout.hpp>

#include <support/stream_pair.hpp>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "../../apps/cp/transfer/receiver.hpp"
#include "../../apps/cp/transfer/session.hpp"
#include "temporary_tree.hpp"

namespace copy::test {

using cordma::task;
using frames = std::vector<std::byte>;

inline constexpr std::uint32_t chunk = smallest_chunk;
inline constexpr std::uint32_t slots = 4;  // of each lane at the receiver
inline constexpr std::uint32_t both_lanes = 2;

[[nodiscard]] inline transfer_options usual_options() {
  transfer_options o;
  o.recursive = o.links = o.hard_links = o.mode = o.times = true;
  o.chunk_bytes = chunk;
  o.memory_bytes = std::uint64_t{chunk} * slots * both_lanes;
  return o;
}

// A frame received from the other side.
struct heard {
  frame_kind kind = frame_kind::hello;
  frames payload;
  [[nodiscard]] frame_reader reader() const noexcept { return {kind, payload}; }
};

// The peer that violates the protocol.
class villain {
 public:
  villain(cordma::Context& context, lanes ways)
      : memory_(
            context
                .allocate(slots * chunk, cordma::access::local_write | cordma::access::remote_write)
                .value()),
        ways_(std::move(ways)) {}

  [[nodiscard]] lane& way(std::uint32_t number = 0) { return *ways_[number]; }
  [[nodiscard]] const cordma::MemoryRegion& memory() const noexcept { return memory_; }
  void go() noexcept { ways_.clear(); }

  frames told;  // frames that the test makes it send

  [[nodiscard]] task<void> say(frames f, std::uint32_t number = 0) {
    co_await way(number).stream().write(f);
  }
  // Returns the next frame. Throws if there is none.
  [[nodiscard]] task<heard> hear_any(std::uint32_t number = 0) {
    const bool more = co_await way(number).next();
    if (!more) cordma::throw_error({cordma::errc::truncated, "the villain heard the end"});
    frame_reader in = way(number).frame();
    heard h;
    h.kind = in.kind();
    while (!in.empty()) h.payload.push_back(in.bytes(1).front());
    co_return h;
  }
  // Returns the next frame of that kind on that lane; skips others.
  [[nodiscard]] task<heard> hear(frame_kind kind, std::uint32_t number = 0) {
    for (;;) {
      heard h = co_await hear_any(number);
      if (h.kind == kind) co_return h;
    }
  }
  // Ends all streams in order.
  void finish() {
    for (const std::unique_ptr<lane>& l : ways_) l->stream().shutdown_send().value();
  }
  // Writes bytes into a slot of the receiver, as a sender does before it announces them.
  [[nodiscard]] task<void> put(slot_memory where, std::uint32_t slot, std::string_view bytes) {
    std::memcpy(memory_.bytes().data(), bytes.data(), bytes.size());
    const std::uint64_t at = where.offset + std::uint64_t{slot} * where.slot_bytes;
    const cordma::Slice part = memory_.all().first(bytes.size());
    cordma::send_operation written = way(0).stream().write_at(where.number, at, part);
    co_await written;
  }
  // Returns the receiver's memory frame on the first lane.
  [[nodiscard]] task<slot_memory> hear_memory() {
    const heard h = co_await hear(frame_kind::memory);
    frame_reader in = h.reader();
    co_return decode_memory(in);
  }

 private:
  cordma::MemoryRegion memory_;
  lanes ways_;
};

// The actions of the villain. Its exceptions are ignored: the other side has ended.
struct script {
  task<void> (*act)(villain&) = nullptr;
  frames told{};  // frames for the villain to send
};
inline task<void> say_told(villain& v) {
  const frames all = v.told;
  co_await v.say(all);
}

// The result of the attacked side.
struct ending {
  std::string error;  // empty: ended in order
  outcome result;
  [[nodiscard]] bool names(std::string_view what) const {
    if (error.find(what) != std::string::npos) return true;
    for (const problem& p : result.problems) {
      if ((p.path + ": " + p.why).find(what) != std::string::npos) return true;
    }
    return false;
  }
};

[[nodiscard]] inline std::string text_of(const ending& e) {
  std::string text = "ended with: " + e.error;
  for (const problem& p : e.result.problems) text += "; " + p.path + ": " + p.why;
  return text;
}

// A hang ends after this time and fails the test.
inline constexpr auto for_ever = std::chrono::seconds(20);

inline task<void> attacked(task<outcome> side, ending* end, lanes* ways) {
  try {
    end->result = co_await cordma::with_timeout(for_ever, std::move(side));
  } catch (const std::exception& e) {
    end->error = e.what();
  }
  ways->clear();  // a server's client or a program closes its lanes on an error
}

inline task<void> attacker(villain* v, const script* what) {
  v->told = what->told;
  try {
    co_await what->act(*v);
  } catch (const cordma::error&) {}
}

inline task<void> open_lanes(cordma::test::stage* s, lanes* server, lanes* client) {
  for (std::uint32_t i = 0; i < both_lanes; ++i) {
    cordma::test::stream_pair p = co_await cordma::test::open_streams(*s);
    server->push_back(std::make_unique<lane>(std::move(p.server)));
    client->push_back(std::make_unique<lane>(std::move(p.client)));
  }
}

inline task<void> play_both(cordma::test::stage* s, const script* what, ending* end,
                            std::function<task<outcome>(lanes&)> begin) {
  lanes ours;
  lanes theirs;
  co_await open_lanes(s, &ours, &theirs);
  villain v(s->client_context(), std::move(theirs));
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope both(me);
  both.spawn(attacked(begin(ours), end, &ours));
  both.spawn(attacker(&v, what));
  co_await both.join();
}

inline constexpr cordma::transport::kind transports[] = {cordma::transport::kind::shm,
                                                         cordma::transport::kind::tcp};

// Attacks the real receiver, which writes into `root`.
[[nodiscard]] inline ending attack_receiver(cordma::transport::kind over, const std::string& root,
                                            const script& what,
                                            const transfer_options& options = usual_options(),
                                            const std::string& only_name = {},
                                            const filter& chosen = {},
                                            const named_sources* named = nullptr) {
  cordma::test::stage s({}, over);
  target into = target::open(root, target::missing::is_error).value();
  const item_sink nobody = [](const item&) {};
  progress unseen;
  ending end;
  std::unique_ptr<file_ring> files;
  std::unique_ptr<receiver> real;
  const auto begin = [&](lanes& ways) {
    files = std::make_unique<file_ring>(s.loop());
    real = std::make_unique<receiver>(s.server_context(), s.server(), *files, ways, into, only_name,
                                      chosen, options, unseen, nobody);
    if (named != nullptr) real->expect_only(*named);
    return real->run();
  };
  cordma::run(s.loop(), play_both(&s, &what, &end, begin));
  return end;
}

// Attacks the real sender, which reads all of `root`.
[[nodiscard]] inline ending attack_sender(cordma::transport::kind over, const std::string& root,
                                          const script& what,
                                          const transfer_options& options = usual_options()) {
  cordma::test::stage s({}, over);
  const filter chosen;
  scan_options how;
  how.recursive = how.links = how.hard_links = true;
  scanner found({{root + "/", true}}, chosen, how);
  const item_sink nobody = [](const item&) {};
  progress unseen;
  ending end;
  std::unique_ptr<file_ring> files;
  std::unique_ptr<sender> real;
  const auto begin = [&](lanes& ways) {
    files = std::make_unique<file_ring>(s.loop());
    real = std::make_unique<sender>(s.server_context(), s.server(), *files, ways, found, options,
                                    unseen, nobody);
    return real->run();
  };
  cordma::run(s.loop(), play_both(&s, &what, &end, begin));
  return end;
}

// Encoders of frames.
template <class Payload>
frames frame_of(frame_kind kind, Payload payload) {
  frames out;
  {
    frame_writer w(out, kind);
    payload(w);
  }
  return out;
}
[[nodiscard]] inline frames number_frame(frame_kind kind, std::uint64_t n) {
  return frame_of(kind, [n](frame_writer& w) { w.u64(n); });
}
template <class Frame>
frames encoded(const Frame& f) {
  frames out;
  encode(out, f);
  return out;
}

[[nodiscard]] inline entry file_entry(std::string path, std::uint64_t size) {
  entry e;
  e.mode = 0644;
  e.size = e.allocated = size;
  e.modified.s = 1'000'000'000;
  e.path = std::move(path);
  return e;
}
[[nodiscard]] inline entry directory_entry(std::string path) {
  entry e = file_entry(std::move(path), 0);
  e.kind = entry_kind::directory;
  e.mode = 0755;
  return e;
}
[[nodiscard]] inline entry link_entry(entry_kind kind, std::string path, std::string to) {
  entry e = file_entry(std::move(path), 0);
  e.kind = kind;
  e.target = std::move(to);
  return e;
}
[[nodiscard]] inline frames entries_frame(const std::vector<entry>& all) {
  return frame_of(frame_kind::entries, [&all](frame_writer& w) {
    for (const entry& e : all) encode(w, e);
  });
}
[[nodiscard]] inline frames operator+(frames a, const frames& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
// The frames of a complete list of entries.
[[nodiscard]] inline frames listed(const std::vector<entry>& all) {
  return entries_frame(all) + number_frame(frame_kind::entries_end, all.size());
}

[[nodiscard]] inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

[[nodiscard]] inline std::uint64_t digest_of_text(std::string_view text) {
  return digest_of(std::as_bytes(std::span(text)));
}

}  // namespace copy::test
