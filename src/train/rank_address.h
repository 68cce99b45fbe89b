#pragma once

#include <cstdint>
#include <string>

namespace smartmine {

/// The way from this host to another, by the numbers of its two ends. Empty: there is none.
struct Way {
  std::string own;
  std::string target;
};
Way way_to(const std::string& target, std::uint16_t port);

/// Whether an address, a number, leads nowhere but to this host.
bool is_loopback(const std::string& address);
bool is_of_this_host(const std::string& address);

std::string host_name();

}  // namespace smartmine
