#include <cordma/net/receive_credits.hpp>

#include <cordma/net/context.hpp>
#include <cordma/runtime/sleep.hpp>

namespace cordma {

receive_credits::receive_credits(Context& context, Endpoint& sender,
                                 const RemoteSlice& posted_by_peer,
                                 const receive_credit_options& options)
    : copy_(context.allocate(8).value()),
      sender_(sender),
      count_(posted_by_peer),
      options_(options) {}

task<void> receive_credits::take() {
  const mutex::guard mine = co_await turn_.lock();
  while (posted_ == taken_) {
    ++looks_;
    co_await sender_.read(count_, copy_);
    posted_ = copy_.as<std::uint64_t>()[0];
    if (posted_ == taken_) co_await sleep_for(options_.look_again);
  }
  CORDMA_ASSERT_OP(taken_, !=, posted_);
  ++taken_;
}

}  // namespace cordma
