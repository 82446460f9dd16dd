#include "transaction.hpp"

namespace kv {

bool transaction::queue(const known_command& what, std::span<const std::string_view> args) {
  std::size_t bytes = 0;
  for (const std::string_view a : args) bytes += a.size() + sizeof(std::size_t);
  if (bytes > most_bytes - text_.size() - ends_.size() * sizeof(std::size_t)) return false;
  const std::size_t first = ends_.size();
  for (const std::string_view a : args) {
    text_ += a;
    ends_.push_back(text_.size());
  }
  queued_.push_back({&what, first, args.size()});
  return true;
}

std::vector<std::string_view> transaction::arguments() const {
  std::vector<std::string_view> views;
  views.reserve(ends_.size());
  std::size_t begin = 0;
  for (const std::size_t end : ends_) {
    views.push_back(std::string_view(text_).substr(begin, end - begin));
    begin = end;
  }
  return views;
}

void transaction::close() noexcept {
  constexpr std::size_t kept = 4096;
  open_ = false;
  spoilt_ = false;
  queued_.clear();
  ends_.clear();
  text_.clear();
  if (text_.capacity() > kept) text_.shrink_to_fit();
}

}  // namespace kv
