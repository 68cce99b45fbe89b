#include "train/rank_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

namespace smartmine {
namespace {

std::string number_of(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  return getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0 ? text.data() : "";
}

}  // namespace

Way way_to(const std::string& target, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(target.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  for (const addrinfo* each = all.get(); each != nullptr; each = each->ai_next) {
    const int socket = ::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    const bool known = ::connect(socket, each->ai_addr, each->ai_addrlen) == 0 &&
                       getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) == 0;
    ::close(socket);
    Way way;
    if (known) way = {number_of(reinterpret_cast<sockaddr*>(&own), length), number_of(each->ai_addr, each->ai_addrlen)};
    if (!way.own.empty()) return way;
  }
  return {};
}

bool is_loopback(const std::string& address) {
  in6_addr number{};
  return address.starts_with("127.") || (inet_pton(AF_INET6, address.c_str(), &number) == 1 && IN6_IS_ADDR_LOOPBACK(&number));
}

bool is_of_this_host(const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  const bool bound = ::bind(socket, found->ai_addr, found->ai_addrlen) == 0;
  ::close(socket);
  return bound;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace smartmine
