// lending: the memory of a door for requests or responses, and each client's share of it. Peers
// have no access to it.
#pragma once

#include "../keyspace/counters.hpp"
#include "carriage.hpp"
#include "long_memory.hpp"

#include <cordma/net/buffer_pool.hpp>
#include <cordma/runtime/semaphore.hpp>
#include <cordma/runtime/task.hpp>

#include <cstddef>
#include <cstdint>

namespace kv::native {

struct lending_counters {
  relaxed_counter bytes;          // on loan now
  relaxed_counter registrations;  // of memory longer than a buffer
};

// Lends `buffers` buffers to all clients, and memory of `longer` for sizes above a buffer. Bound to
// one thread. Its loans and shares end before it does.
class lending {
 public:
  // A client's own share: one buffer for when the common ones are on loan, so that it never waits
  // for other clients, and one turn at longer memory.
  class share {
   public:
    explicit share(cordma::Context& context) : buffer_(context, buffer_bytes, 1) {}

   private:
    friend class lending;
    cordma::BufferPool buffer_;
    cordma::semaphore turn_{1};
  };

  // Memory of at least the requested size. Move-only; the destructor returns it, which must precede
  // that of its share.
  class loan {
   public:
    loan() noexcept = default;
    loan(loan&& other) noexcept;
    loan& operator=(loan&& other) noexcept;
    ~loan() { give_back(); }
    [[nodiscard]] explicit operator bool() const noexcept { return from_ != nullptr; }
    [[nodiscard]] cordma::Slice all() const noexcept {
      return longer_ ? longer_.all() : buffer_.all();
    }

   private:
    friend class lending;
    loan(lending& from, cordma::Buffer buffer) noexcept;
    loan(lending& from, cordma::MemoryRegion longer, cordma::semaphore& turn) noexcept;
    void give_back() noexcept;
    lending* from_ = nullptr;
    cordma::Buffer buffer_;
    cordma::MemoryRegion longer_;
    cordma::semaphore* turn_ = nullptr;
  };

  lending(cordma::Context& context, long_memory& longer, lending_counters& counters);
  lending(const lending&) = delete;
  lending& operator=(const lending&) = delete;

  // Returns an empty loan if a wait would be needed.
  [[nodiscard]] loan lend_now(std::size_t bytes);
  // Throws cordma::error: no_memory. `to` must outlive the loan.
  [[nodiscard]] cordma::task<loan> lend(share* to, std::size_t bytes);
  [[nodiscard]] share new_share() { return share(context_); }

 private:
  cordma::Context& context_;
  lending_counters& counters_;
  cordma::BufferPool buffers_;
  long_memory& longer_;
};

}  // namespace kv::native
