// A transport with capabilities and keys only: no connection can be made over it.
#pragma once

#include <cordma/net/transport/transport.hpp>

#include <memory>

namespace cordma::test {

class paper_domain final : public transport::domain {
 public:
  explicit paper_domain(const transport::capabilities& c) : caps_(c) {}
  [[nodiscard]] static std::shared_ptr<transport::domain> of(transport::kind k) {
    transport::capabilities c;
    c.transport = k;
    return std::make_shared<paper_domain>(c);
  }
  [[nodiscard]] const transport::capabilities& caps() const noexcept override { return caps_; }
  result<transport::memory_keys> register_memory(const transport::memory_range&) override {
    return transport::memory_keys{.lkey = 1, .rkey = 1};
  }
  void deregister_memory(std::uint32_t) noexcept override {}
  result<std::unique_ptr<transport::adapter>> open(reactor&) override {
    return errc::not_supported;
  }

 private:
  transport::capabilities caps_;
};

}  // namespace cordma::test
