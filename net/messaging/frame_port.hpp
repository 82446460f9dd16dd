// The receive queue and the requests that all peers of one transport share.
#pragma once

#include <cordma/net/datapath/completion_sink.hpp>
#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/messaging/frame_entry.hpp>
#include <cordma/net/messaging/message_segment.hpp>
#include <cordma/net/messaging/rail_core.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace cordma::detail {

class message_core;
class peer_core;

// Frames over one transport. Bound to the thread of its Worker.
class frame_port final : public completion_sink {
 public:
  frame_port(message_core& of, worker_core& worker, adapter_poller& over);
  ~frame_port();
  [[nodiscard]] result<void> make();

  [[nodiscard]] message_core& core() const noexcept { return *core_; }
  // Null once it is gone.
  [[nodiscard]] worker_core* worker() const noexcept { return worker_; }
  [[nodiscard]] const adapter_poller& via() const noexcept { return *via_; }
  // Of each segment.
  [[nodiscard]] std::uint32_t eager_bytes() const noexcept { return eager_bytes_; }
  [[nodiscard]] transport::receive_queue* queue() const noexcept { return queue_.get(); }
  // By which rails go; the first is via().
  [[nodiscard]] const std::vector<rail_device>& devices() const noexcept { return devices_; }
  [[nodiscard]] list<peer_core>& peers() noexcept { return peers_; }

  bool on_completion(std::uint32_t index, const transport::completion& c) noexcept override;
  void on_joined(endpoint_core& endpoint) override;
  void on_worker_gone() noexcept override;

  // One more peer, that may use so many: of the first ones they are had at once, of the others when they are used.
  // Throws std::bad_alloc, which connecting and accepting take for no_memory. unpromise() gives it back.
  void promise(std::uint32_t segments, std::uint32_t sends);
  void unpromise(std::uint32_t segments, std::uint32_t sends) noexcept;
  // For a message that lies in the transport. Null: none is free.
  [[nodiscard]] message_segment* take_segment() noexcept;
  // Whether one is, without a look at what is still promised.
  [[nodiscard]] bool has_segment() const noexcept { return free_segments_ != nullptr; }
  // REQUIRES has_segment().
  [[nodiscard]] message_segment& take_free_segment() noexcept {
    return *std::exchange(free_segments_, free_segments_->next_free);
  }
  void release(message_segment& s) noexcept;
  // The same, and its peer's credit goes back, where that is there.
  static void let_go(message_segment& s) noexcept;
  // It is held, and its peer is gone.
  void leave(message_segment& s) noexcept;
  // Neither posted nor free.
  [[nodiscard]] std::size_t held_segments() const noexcept;

  // False: not now; what waits for it goes on when another is free.
  [[nodiscard]] bool has_entry() noexcept;
  // REQUIRES that its peer has_place().
  [[nodiscard]] frame_entry& take_entry(peer_core& peer, frame_entry::use what,
                                        rail_core* over = nullptr) noexcept;
  [[nodiscard]] frame_entry& entry(std::uint32_t index) noexcept { return *entries_[index]; }
  void release(frame_entry& e) noexcept;
  // The queue pair of that rail is gone, or all of that peer: what it had in flight ends.
  void flush(peer_core& peer, const rail_core* only = nullptr) noexcept;
  [[nodiscard]] std::uint64_t id_of(const frame_entry& e) const noexcept {
    return sink_id(number(), e.index | is_send);
  }

 private:
  static constexpr std::uint32_t is_send = 1U << 31;  // in an index
  void on_received(message_segment& s, const transport::completion& c) noexcept;
  void on_sent(frame_entry& e, const transport::completion& c) noexcept;
  void grow_segments(std::uint32_t to);
  void grow_entries(std::uint32_t to);
  [[nodiscard]] bool lacks_segments() const noexcept;
  void grow_by_need() noexcept;
  void feed() noexcept;

  message_core* core_;
  worker_core* worker_;
  adapter_poller* via_;
  std::uint32_t eager_bytes_;
  std::uint32_t at_once_ = 0;   // segments that are there before they are needed, at most
  std::uint32_t may_post_ = 0;  // ... and that are posted
  std::unique_ptr<transport::receive_queue> queue_;
  std::uint32_t posted_ = 0;
  std::uint32_t promised_segments_ = 0;
  std::uint32_t promised_sends_ = 0;
  std::uint32_t left_ = 0;  // segments held of peers that are gone: beyond what is promised
  bool starved_ = false;    // there was no entry for a peer
  std::vector<message_segment*> segments_;  // by index
  std::vector<frame_entry*> entries_;       // likewise
  message_segment* free_segments_ = nullptr;
  frame_entry* free_entries_ = nullptr;
  std::vector<std::unique_ptr<message_segment[]>> segment_chunks_;
  std::vector<std::unique_ptr<frame_entry[]>> entry_chunks_;
  std::vector<MemoryRegion> memory_;
  std::vector<rail_device> devices_;
  list<peer_core> peers_;
};

}  // namespace cordma::detail
