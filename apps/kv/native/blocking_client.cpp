#include "blocking_client.hpp"

namespace kv {

blocking_client::blocking_client(const std::string& server, const client_options& options,
                                 cordma::wait_mode mode)
    : worker_(context_, cordma::reactor_options{.mode = mode}),
      client_(worker_.run(client::connect(&context_, &worker_, server, options))) {}

blocking_client::~blocking_client() {
  try {
    worker_.run(client_->close());
  } catch (const cordma::error&) {  // already disconnected
  }
}

reply blocking_client::get(std::string_view key, std::string& into) {
  return worker_.run(client_->get(key, &into));
}

reply blocking_client::set(std::string_view key, std::string_view value,
                           const set_options& options) {
  return worker_.run(client_->set(key, value, options));
}

reply blocking_client::erase(std::string_view key) { return worker_.run(client_->erase(key)); }

std::string blocking_client::info(std::string_view section) {
  return worker_.run(client_->info(section));
}

std::uint64_t blocking_client::scan(std::uint64_t cursor, const scan_options& options,
                                    std::vector<scanned_key>& into) {
  return worker_.run(client_->scan(cursor, options, &into));
}

void blocking_client::run(batch& of) { worker_.run(client_->run(&of)); }

void blocking_client::read(batch& of) { worker_.run(client_->read(&of)); }

}  // namespace kv
