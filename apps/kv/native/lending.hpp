// lending: the memory in which a door has requests, or responses, and what of it each client may hold. Nobody else can
// read it.
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
  relaxed_counter bytes;          // on loan just now
  relaxed_counter registrations;  // of memory for what is longer than a buffer
};

// Buffers for all clients, as many as `buffers`, and of `longer` what does not fit one. Bound to one thread. Its loans
// and shares end before it does.
class lending {
 public:
  // What a client has for itself: a buffer, for when the others are all on loan, so that it never waits for another
  // client; and one turn at having something longer.
  class share {
   public:
    explicit share(cordma::Context& context) : buffer_(context, buffer_bytes, 1) {}

   private:
    friend class lending;
    cordma::BufferPool buffer_;
    cordma::semaphore turn_{1};
  };

  // Memory of at least the bytes asked for. Move-only; given back when destroyed, before its share.
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

  // Empty: it would have to be waited for.
  [[nodiscard]] loan lend_now(std::size_t bytes);
  // Throws cordma::error: no_memory. `to` lives until then.
  [[nodiscard]] cordma::task<loan> lend(share* to, std::size_t bytes);
  [[nodiscard]] share new_share() { return share(context_); }

 private:
  cordma::Context& context_;
  lending_counters& counters_;
  cordma::BufferPool buffers_;
  long_memory& longer_;
};

}  // namespace kv::native
