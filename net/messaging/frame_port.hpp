// The receive queue and the send requests shared by all peers of one transport.
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
  // Null once it is destroyed.
  [[nodiscard]] worker_core* worker() const noexcept { return worker_; }
  [[nodiscard]] const adapter_poller& via() const noexcept { return *via_; }
  // Size of each segment, in bytes.
  [[nodiscard]] std::uint32_t eager_bytes() const noexcept { return eager_bytes_; }
  [[nodiscard]] transport::receive_queue* queue() const noexcept { return queue_.get(); }
  // The devices of the rails; the first is via().
  [[nodiscard]] const std::vector<rail_device>& devices() const noexcept { return devices_; }
  [[nodiscard]] list<peer_core>& peers() noexcept { return peers_; }

  bool on_completion(std::uint32_t index, const transport::completion& c) noexcept override;
  void on_joined(endpoint_core& endpoint) override;
  void on_worker_gone() noexcept override;

  // Reserves segments and sends for one more peer. Those of the first peers are allocated at once,
  // those of others on use. Throws std::bad_alloc, which connecting and accepting convert to
  // no_memory. unpromise() reverts it.
  void promise(std::uint32_t segments, std::uint32_t sends);
  void unpromise(std::uint32_t segments, std::uint32_t sends) noexcept;
  // Returns a segment for a message in the transport's ring. Null: none is free.
  [[nodiscard]] message_segment* take_segment() noexcept;
  // Whether a segment is free, without a check of the reserved ones.
  [[nodiscard]] bool has_segment() const noexcept { return free_segments_ != nullptr; }
  // REQUIRES has_segment().
  [[nodiscard]] message_segment& take_free_segment() noexcept {
    return *std::exchange(free_segments_, free_segments_->next_free);
  }
  void release(message_segment& s) noexcept;
  // The same, and returns the credit to its peer, if the peer exists.
  static void let_go(message_segment& s) noexcept;
  // Records that the segment is held and its peer is destroyed.
  void leave(message_segment& s) noexcept;
  // Segments that are neither posted nor free.
  [[nodiscard]] std::size_t held_segments() const noexcept;

  // Returns false if no entry is available now; waiting peers continue when one is free.
  [[nodiscard]] bool has_entry() noexcept;
  // REQUIRES that its peer has_place().
  [[nodiscard]] frame_entry& take_entry(peer_core& peer, frame_entry::use what,
                                        rail_core* over = nullptr) noexcept;
  [[nodiscard]] frame_entry& entry(std::uint32_t index) noexcept { return *entries_[index]; }
  void release(frame_entry& e) noexcept;
  // Called when the queue pair of that rail, or all of that peer, is destroyed: its requests in
  // flight end.
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
  std::uint32_t at_once_ = 0;   // limit of segments that are allocated before they are needed
  std::uint32_t may_post_ = 0;  // limit of posted segments
  std::unique_ptr<transport::receive_queue> queue_;
  std::uint32_t posted_ = 0;
  std::uint32_t promised_segments_ = 0;
  std::uint32_t promised_sends_ = 0;
  std::uint32_t left_ = 0;  // held segments of destroyed peers, in addition to the reserved ones
  bool starved_ = false;    // no entry was available for a peer
  std::vector<message_segment*> segments_;  // by index
  std::vector<frame_entry*> entries_;       // by index
  message_segment* free_segments_ = nullptr;
  frame_entry* free_entries_ = nullptr;
  std::vector<std::unique_ptr<message_segment[]>> segment_chunks_;
  std::vector<std::unique_ptr<frame_entry[]>> entry_chunks_;
  std::vector<MemoryRegion> memory_;
  std::vector<rail_device> devices_;
  list<peer_core> peers_;
};

}  // namespace cordma::detail
