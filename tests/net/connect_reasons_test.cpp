// The error of a connect that tried several transports.
#include <cordma/cordma.hpp>

#include <doctest/doctest.h>
#include <cordma/runtime/unique_fd.hpp>

#include <netinet/in.h>
#include <sys/socket.h>

using namespace cordma;

TEST_CASE(
    "a service that does not answer is named with what it may lack, and with what else was tried") {
  const unique_fd silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof at;
  REQUIRE(::bind(silent.get(), reinterpret_cast<const sockaddr*>(&at), bytes) == 0);
  REQUIRE(::listen(silent.get(), 4) == 0);  // never accepts a connection
  REQUIRE(::getsockname(silent.get(), reinterpret_cast<sockaddr*>(&at), &bytes) == 0);
  const std::string address = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  for (const bool both : {true, false}) {
    CAPTURE(both);
    context_options of;
    of.transports = {transport::kind::tcp};
    if (both) of.transports.insert(of.transports.begin(), transport::kind::shm);
    Context context(of);
    Worker worker(context);
    connect_options options;
    options.endpoint.connect_timeout = std::chrono::milliseconds(50);
    const result<Endpoint> made = worker.run(
        [](Worker* w, const std::string* to, connect_options how) -> task<result<Endpoint>> {
          co_return co_await w->connect(*to, how).result();
        }(&worker, &address, options));
    REQUIRE_FALSE(made);
    CHECK(made.code() == errc::timed_out);
    const std::string why = made.why().message();
    CAPTURE(why);
    CHECK(why.find(address +
                   " did not answer within 50 ms (connect_timeout): its service is busy") == 0);
    CHECK((why.find("; before that, shm: ") != std::string::npos) == both);
    CHECK_FALSE(why.ends_with("; "));
  }
}
