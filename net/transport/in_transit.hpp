// Connection requests that move from one adapter of a domain to another.
#pragma once

#include <cordma/runtime/check.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace cordma::transport {

// Thread-safe. Ids are unique in the domain: the first collect() of an id gets the request.
template <class Request>
class in_transit {
 public:
  [[nodiscard]] std::uint64_t next_id() noexcept { return ++last_id_; }
  void leave(std::uint64_t id, std::unique_ptr<Request> what) {
    CORDMA_REQUIRE(what != nullptr);
    CORDMA_REQUIRE_OP(id, <=, last_id_.load());
    const std::lock_guard lock(mutex_);
    const bool is_new = requests_.emplace(id, std::move(what)).second;
    CORDMA_ASSERT(is_new);
  }
  // The same, but `hand()` notifies the next owner of the request. collect() by that owner waits
  // until hand() has returned. False: hand() returned false, and the request is destroyed.
  template <class Hand>
  [[nodiscard]] bool leave(std::uint64_t id, std::unique_ptr<Request> what, Hand hand) {
    CORDMA_REQUIRE(what != nullptr);
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = requests_.emplace(id, nullptr);
    CORDMA_ASSERT(is_new);
    if (hand()) {
      place->second = std::move(what);
      return true;
    }
    requests_.erase(place);
    return false;
  }
  // Null if it was already collected or never left.
  [[nodiscard]] std::unique_ptr<Request> collect(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    auto found = requests_.extract(id);
    return found ? std::move(found.mapped()) : nullptr;
  }
  // Destroys the requests for which `goes(const Request&)` is true.
  template <class Which>
  void drop(Which goes) {
    const std::lock_guard lock(mutex_);
    std::erase_if(requests_, [&goes](const auto& entry) { return goes(*entry.second); });
  }

 private:
  std::atomic<std::uint64_t> last_id_{0};
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Request>> requests_;
};

}  // namespace cordma::transport
