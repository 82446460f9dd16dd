// The receive queue and the requests that all peers of one transport share.
#pragma once

#include <cordma/net/datapath/completion_sink.hpp>
#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/messaging/frame_entry.hpp>
#include <cordma/net/messaging/message_segment.hpp>
#include <cordma/net/messaging/rail_core.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace cordma::detail {

struct message_core;
struct peer_core;

// Frames over one transport.
struct frame_port final : completion_sink {
  frame_port(message_core& of, worker_core& worker, adapter_poller& over);
  ~frame_port();
  [[nodiscard]] result<void> make();

  bool on_completion(std::uint32_t index, const transport::completion& c) noexcept override;
  void on_joined(endpoint_core& endpoint) override;
  void on_worker_gone() noexcept override;
  void on_received(message_segment& s, const transport::completion& c) noexcept;
  void on_sent(frame_entry& e, const transport::completion& c) noexcept;

  // One more peer, that may use so many: of the first ones they are had at once, of the others when they are used.
  // Throws std::bad_alloc, which connecting and accepting take for no_memory. unpromise() gives it back.
  void promise(std::uint32_t segments, std::uint32_t sends);
  void unpromise(std::uint32_t segments, std::uint32_t sends) noexcept;
  void grow_segments(std::uint32_t to);
  void grow_entries(std::uint32_t to);
  [[nodiscard]] bool lacks_segments() const noexcept;
  void grow_by_need() noexcept;
  // False: not now; what waits for it goes on when another is free.
  [[nodiscard]] bool has_entry() noexcept;
  void feed() noexcept;
  // For a message that lies in the transport. Null: none is free.
  [[nodiscard]] message_segment* take_segment() noexcept;
  void release(message_segment& s) noexcept;
  // The same, and its peer's credit goes back, where that is there.
  static void let_go(message_segment& s) noexcept;
  // REQUIRES that its peer has_place().
  [[nodiscard]] frame_entry& take_entry(peer_core& peer, frame_entry::use what,
                                        rail_core* over = nullptr) noexcept;
  void release(frame_entry& e) noexcept;
  // The queue pair of that rail is gone, or all of that peer: what it had in flight ends.
  void flush(peer_core& peer, const rail_core* only = nullptr) noexcept;

  [[nodiscard]] std::uint64_t id_of(std::uint32_t index) const noexcept {
    return sink_id(sink_number, index);
  }

  static constexpr std::uint32_t is_send = 1U << 31;  // in an index
  message_core* core;
  worker_core* worker;  // null once it is gone
  adapter_poller* via;
  std::uint32_t eager_bytes;   // of each segment
  std::uint32_t at_once = 0;   // segments that are there before they are needed, at most
  std::uint32_t may_post = 0;  // ... and that are posted
  std::unique_ptr<transport::receive_queue> queue;
  std::uint32_t posted = 0;
  std::uint32_t promised_segments = 0;
  std::uint32_t promised_sends = 0;
  std::uint32_t left = 0;  // segments held of peers that are gone: beyond what is promised
  bool starved = false;    // there was no entry for a peer
  std::vector<message_segment*> segments;  // by index
  std::vector<frame_entry*> entries;       // likewise
  message_segment* free_segments = nullptr;
  frame_entry* free_entries = nullptr;
  std::vector<std::unique_ptr<message_segment[]>> segment_chunks;
  std::vector<std::unique_ptr<frame_entry[]>> entry_chunks;
  std::vector<MemoryRegion> memory;
  std::vector<rail_device> devices;  // the first is `via`
  list<peer_core> peers;
};

}  // namespace cordma::detail
