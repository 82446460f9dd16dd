// Sends commands to the server unchanged.
#include "console.hpp"

#include <string_view>
#include <vector>

namespace kv::cli {
namespace {

class resp_console final : public console {
 public:
  explicit resp_console(const service& s) : client_(s.resp, s.as_resp()) {}
  resp_value run(const std::vector<std::string>& words) override {
    const std::vector<std::string_view> views(words.begin(), words.end());
    return client_.call(views);
  }
  [[nodiscard]] std::string help() const override {
    return "  Every command goes to the server as it is; COMMAND DOCS has those it knows.\n";
  }

 private:
  resp_client client_;
};

}  // namespace

std::unique_ptr<console> connect_resp_console(const service& s) {
  return std::make_unique<resp_console>(s);
}

}  // namespace kv::cli
