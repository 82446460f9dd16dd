// The exchange of the two sides about their memory, and accesses that an owner carries out for the
// peer.
#pragma once

#include <cordma/net/transport/shm/remote_memory.hpp>
#include <cordma/net/transport/shm/wire.hpp>
#include <cordma/runtime/check.hpp>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cordma::transport::shm {

// Bound to the adapter's thread.
class region_talk {
 public:
  // Memory that the peer's messages are fetched from, by offer_key().
  [[nodiscard]] remote_memory& offers() noexcept { return offers_; }

  // True if the peer has received an offer of this region.
  [[nodiscard]] bool has_offered(std::uint32_t lkey, std::uint32_t epoch) noexcept {
    if (last_lkey_ == lkey && last_epoch_ == epoch) return true;
    const auto known = offered_.find(lkey);
    if (known == offered_.end() || known->second != epoch) return false;
    last_lkey_ = lkey;
    last_epoch_ = epoch;
    return true;
  }
  void note_offered(std::uint32_t lkey, std::uint32_t epoch) noexcept {
    last_lkey_ = lkey;
    last_epoch_ = epoch;
    try {
      offered_[lkey] = epoch;
    } catch (const std::bad_alloc&) {
      // A later message offers it again.
    }
  }
  // Epoch of the last region passed to has_offered() or note_offered().
  [[nodiscard]] std::uint32_t last_epoch() const noexcept { return last_epoch_; }

  // Records that the region of this key was requested from the peer.
  void ask(std::uint64_t rkey) noexcept {
    CORDMA_ASSERT_OP(asked_, ==, 0U);
    CORDMA_ASSERT_OP(rkey, !=, 0U);
    asked_ = rkey;
  }
  [[nodiscard]] bool awaits_answer() const noexcept { return asked_ != 0; }
  [[nodiscard]] bool awaits_answer(std::uint64_t rkey) const noexcept { return asked_ == rkey; }
  // Returns true if a response was awaited.
  bool end_question() noexcept { return std::exchange(asked_, 0U) != 0; }

  // Keeps a request of the peer because the socket was too full for the response. False: more
  // requests than a peer that reads responses can have.
  [[nodiscard]] bool keep(const region_packet& question) {
    if (unanswered_.size() >= most_unanswered) return false;
    unanswered_.push_back(question);
    return true;
  }
  [[nodiscard]] bool owes_answers() const noexcept { return !unanswered_.empty(); }
  [[nodiscard]] std::vector<region_packet> take_unanswered() noexcept {
    return std::exchange(unanswered_, {});
  }

 private:
  static constexpr std::size_t most_unanswered = 1024;

  remote_memory offers_;
  std::unordered_map<std::uint32_t, std::uint32_t> offered_;  // lkey -> epoch
  std::uint32_t last_lkey_ = 0;
  std::uint32_t last_epoch_ = 0;
  std::uint64_t asked_ = 0;  // 0: none
  std::vector<region_packet> unanswered_;
};

// Accesses that the owner of memory carries out, one at a time. Bound to the adapter's thread.
class owner_service {
 public:
  void request(std::uint64_t bytes) noexcept {
    CORDMA_ASSERT_OP(bytes_, ==, 0U);
    CORDMA_ASSERT_OP(bytes, >, 0U);
    bytes_ = bytes;
    ++requests_;
  }
  [[nodiscard]] bool is_pending() const noexcept { return bytes_ != 0; }
  // Total requests sent.
  [[nodiscard]] std::uint64_t requests() const noexcept { return requests_; }
  // Returns the bytes of the request that was answered.
  [[nodiscard]] std::uint64_t finish() noexcept { return std::exchange(bytes_, 0U); }

 private:
  std::uint64_t requests_ = 0;
  std::uint64_t bytes_ = 0;  // of the pending request; 0: none
};

}  // namespace cordma::transport::shm
