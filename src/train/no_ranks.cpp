// Compiled where there is no c10d or no Gloo, in place of ranks_link.cpp and what it stands on.
#include "train/ranks_link.h"

namespace smartmine {
namespace {
[[noreturn]] void refuse() {
  throw RankFailure(
      "this program was built without ranks: it takes a LibTorch with Gloo and the headers of Gloo (Debian's libgloo-dev) to build them");
}
}  // namespace

bool Ranks::available() { return false; }
struct Ranks::Link::State {};
Ranks::Link::Link(const RankWorld& /*world*/) { refuse(); }
Ranks::Link::~Link() = default;
int Ranks::Link::local_size() const { return 1; }
int Ranks::Link::local_rank() const { return 0; }
void Ranks::Link::note_work() noexcept {}
void Ranks::Link::send(const void* /*data*/, std::size_t /*bytes*/, int /*to*/) { refuse(); }
void Ranks::Link::receive(void* /*data*/, std::size_t /*bytes*/, int /*from*/) { refuse(); }
void Ranks::Link::exchange(std::span<const Piece> /*pieces*/) { refuse(); }
void Ranks::Link::fail(const std::string& /*why*/) noexcept {}
class RankStore::Server {};
RankStore::RankStore(double /*timeout_seconds*/) { refuse(); }
RankStore::~RankStore() = default;
std::uint16_t RankStore::port() const { return 0; }
void RankStore::fail(const std::string& /*why*/) noexcept {}

}  // namespace smartmine
