// Adapts the session of a RESP client to a front door.
#pragma once

#include "conversation.hpp"
#include "reception.hpp"

#include <utility>

namespace kv {

class resp_conversation final : public conversation {
 public:
  resp_conversation(std::atomic<std::uint32_t>& count, service& of, session_origin origin,
                    session::wake_function wake, void* context)
      : seat_(count), session_(of, std::move(origin), wake, context) {}
  void received(std::span<const char> bytes) override { session_.received(bytes); }
  [[nodiscard]] std::span<char> room() noexcept override { return session_.room(); }
  void arrived(std::size_t bytes) override { session_.arrived(bytes); }
  void no_more_input() override { session_.no_more_input(); }
  void resume() override { session_.resume(); }
  [[nodiscard]] std::span<const char> pending() const noexcept override {
    return session_.pending();
  }
  void sent(std::size_t bytes) noexcept override { session_.sent(bytes); }
  [[nodiscard]] bool wants_input() const noexcept override { return session_.wants_input(); }
  [[nodiscard]] session::ending ended() const noexcept override { return session_.ended(); }

 private:
  seat seat_;
  session session_;
};

}  // namespace kv
