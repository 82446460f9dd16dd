#include "shard_walk.hpp"

#include <chrono>
#include <utility>

namespace kv {

shard_walk::shard_walk(keyspace& keys, caller who, std::function<void(change_encoder&)> emit)
    : keys_(keys), who_(who), emit_(std::move(emit)), each_([this](const found& f) { give(f); }) {}

void shard_walk::step() {
  using std::chrono::steady_clock;
  const std::uint64_t wanted = who_ == caller::holds_all ? 0 : std::uint64_t{1} << shard_;
  const keyspace::hold held(keys_, wanted);
  store& keys = keys_.at(shard_);
  const steady_clock::time_point began = steady_clock::now();
  do {
    cursor_ = keys.scan(cursor_, each_);
    if (text_.text().size() >= step_bytes) break;
  } while (cursor_ != 0 && steady_clock::now() - began < step_time);
  emit();
  if (cursor_ == 0) ++shard_;
}

void shard_walk::give(const found& f) {
  const item& i = *f.at;
  if (f.is_string()) {
    text_.put(i.key(), f.value, i.expiry(), i.version);
  } else {
    give_hash(f);
  }
  if (text_.text().size() >= step_bytes) emit();
}

void shard_walk::give_hash(const found& f) {
  const std::string_view key = f.at->key();
  f.fields->for_each([&](const hash_value::entry& e) {
    text_.field_put(key, e.field, e.value);
    if (text_.text().size() >= step_bytes) emit();
  });
  if (f.at->expires()) text_.expiry_set(key, f.at->expiry());
}

void shard_walk::emit() {
  if (text_.text().empty()) return;
  emit_(text_);
  text_.reset();
}

}  // namespace kv
