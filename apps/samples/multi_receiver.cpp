// Receives from many senders at once.
#include "skeleton/sample.hpp"

#include <cordma/runtime/when_all.hpp>

#include <cstdio>
#include <set>

namespace {

// Messages received over all connections.
struct inbox {
  std::set<std::string> texts;
  std::set<std::uint32_t> immediates;
};

cordma::task<void> receive_one(cordma::Endpoint& sender, cordma::Slice room, inbox& all) {
  const cordma::Received got = co_await sender.recv(room);
  const std::string text = sample::text_in(room.bytes().first(got.bytes));
  std::printf("received: \"%s\", immediate %u\n", text.c_str(), got.imm);
  if (!got.has_imm) sample::fail("that came without an immediate");
  // One thread runs all of these coroutines, so no lock is needed.
  if (!all.texts.insert(text).second) sample::fail("that text has come before");
  if (!all.immediates.insert(got.imm).second) sample::fail("that immediate has come before");
  co_await sender.close();
}

cordma::task<void> receive(sample::session& s) {
  std::vector<cordma::Endpoint> senders = co_await sample::meet_all(s);
  const std::size_t count = senders.size();
  cordma::MemoryRegion memory = s.context.allocate(count * sample::region_bytes).value();
  inbox all;
  std::vector<cordma::task<void>> receives;
  for (std::size_t i = 0; i < count; ++i) {
    const cordma::Slice room = memory.slice(i * sample::region_bytes, sample::region_bytes).value();
    receives.push_back(receive_one(senders[i], room, all));
  }
  co_await cordma::when_all(std::move(receives));
  std::printf("received: %zu different messages over %zu connections\n", all.texts.size(), count);
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "multi_receiver",
       .other = "multi_sender",
       .says =
           "Receives a message over each of several connections, no two alike. A\n"
           "message_imm_sender is a peer for one of them, multi_sender for as many as there are.",
       .options = {sample::option::listen, sample::option::connect, sample::option::descriptor,
                   sample::option::connections}},
      argc, argv, receive);
}
