#include "databases.hpp"

#include "word.hpp"

#include "../resp/number.hpp"

#include <algorithm>

namespace kv {
namespace {

std::optional<unsigned> database_of(std::string_view text, std::uint64_t databases) noexcept {
  const auto n = parse_integer(text);
  if (!n || *n < 0 || static_cast<std::uint64_t>(*n) >= databases) return std::nullopt;
  return static_cast<unsigned>(*n);
}

// The target of COPY may be in another database.
unsigned database_of_key(const known_command& what, std::span<const std::string_view> args,
                         std::size_t i, unsigned own) noexcept {
  if (args.size() < 5 || i != 2 || what.name != "copy") return own;
  for (std::size_t at = 3; at + 1 < args.size(); ++at) {
    if (is_word(args[at], "db")) return database_of(args[at + 1], most_databases).value_or(own);
  }
  return own;
}

bool stays(unsigned database, std::string_view name) noexcept {
  return database == 0 && !name.starts_with(database_mark);
}

}  // namespace

std::string key_in(unsigned database, std::string_view name) {
  if (stays(database, name)) return std::string(name);
  std::string key(database_mark);
  key += static_cast<char>(database);
  return key.append(name);
}

void each_key(keyspace& keys, unsigned database, store::scanned which,
              const std::function<void(const found&, std::string_view name)>& each) {
  for (std::uint32_t i = 0; i < keys.shards(); ++i) {
    std::size_t left = keys.at(i).size_of(database);
    std::uint32_t cursor = 0;
    while (left != 0) {
      cursor = keys.at(i).scan(
          cursor,
          [&](const found& f) {
            const key_place at = place_of_key(f.at->key());
            if (at.database != database) return;
            if (left != 0) --left;
            each(f, at.name);
          },
          which);
      if (cursor == 0) break;
    }
  }
}

std::shared_ptr<const named_keys> name_keys(const known_command& what,
                                            std::span<const std::string_view> args,
                                            unsigned database) {
  const std::size_t end = what.keys_end(args);
  const auto first = static_cast<std::size_t>(what.keys.first);
  const auto step = static_cast<std::size_t>(what.keys.step);
  std::size_t bytes = 0;
  for (std::size_t i = first; i < end; i += step) {
    if (stays(database_of_key(what, args, i, database), args[i])) continue;
    bytes += args[i].size() + database_mark.size() + 1;
  }
  if (bytes == 0) return nullptr;
  auto made = std::make_shared<named_keys>();
  made->args.assign(args.begin(), args.end());
  made->text.reserve(bytes);  // so that views of it stay valid
  for (std::size_t i = first; i < end; i += step) {
    const unsigned of = database_of_key(what, args, i, database);
    if (stays(of, args[i])) continue;
    const std::size_t begins = made->text.size();
    made->text += key_in(of, args[i]);
    made->args[i] = std::string_view(made->text).substr(begins);
  }
  return made;
}

std::optional<unsigned> selected_by(std::span<const std::string_view> args,
                                    std::uint64_t databases) noexcept {
  if (args.size() != 2) return std::nullopt;
  return database_of(args[1], databases);
}

}  // namespace kv
