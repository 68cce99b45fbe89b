#include <algorithm>
#include <numeric>

#include "graph/candidates.h"
#include "smartmine/core/parallel.h"

namespace smartmine {

namespace {

// The lists of a group as others see them: how far each reaches, and about which places are on it.
class Sketches {
 public:
  Sketches(const OrderedRows& ordered, const Candidates& candidates, unsigned threads, const Team* team,
           std::span<const std::size_t> begins)
      : first_(begins.front()), words_((begins.back() - first_) * kWords, 0), radii_(begins.back() - first_) {
    std::vector<std::size_t> rows(begins.begin(), begins.end());
    for (std::size_t& row : rows) row -= first_;
    const TeamShare own = own_share(team, rows);
    parallel_for(own.end - own.begin, 2048, threads, [&](std::size_t begin, std::size_t end, unsigned) {
      std::vector<std::uint32_t> scratch;
      for (std::size_t row = own.begin + begin; row < own.begin + end; ++row) {
        radii_[row] = candidates.lists.distances(ordered.point(first_ + row)).back();
        for (const std::uint32_t place : candidates.listed(first_ + row, ordered, scratch)) {
          const std::uint32_t bit = bit_of(place);
          words_[row * kWords + bit / 64] |= std::uint64_t{1} << (bit % 64);
        }
      }
    });
    if (team == nullptr) return;
    team->gather(words_.data(), kWords * sizeof(std::uint64_t), rows);
    team->gather(radii_.data(), sizeof(float), rows);
  }

  static std::uint32_t bit_of(std::uint32_t place) { return (place * 0x9e3779b1U) >> 22; }
  void prefetch(std::size_t place, std::uint32_t bit) const { __builtin_prefetch(&words_[(place - first_) * kWords + bit / 64]); }
  bool wants(std::size_t place, std::uint32_t bit, float squared) const {
    return squared < radii_[place - first_] && (words_[(place - first_) * kWords + bit / 64] >> (bit % 64) & 1) == 0;
  }

 private:
  static constexpr std::size_t kWords = 16;  // 1,024 bits, of which a list of a hundred sets a tenth
  std::size_t first_;
  std::vector<std::uint64_t> words_;
  std::vector<float> radii_;
};

struct Offer {
  std::uint32_t to;    // a place
  std::uint32_t from;  // a point
  float squared;
};

// What the points of a share offer, in their order.
std::vector<std::vector<Offer>> make_offers(const OrderedRows& ordered, const Candidates& candidates, const Sketches& sketches,
                                            unsigned threads, TeamShare own) {
  constexpr std::size_t kPiece = 8192;
  std::vector<std::vector<Offer>> pieces((own.end - own.begin + kPiece - 1) / kPiece);
  parallel_for(own.end - own.begin, kPiece, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    std::vector<Offer>& offers = pieces[begin / kPiece];
    std::vector<std::uint32_t> scratch;
    for (std::size_t p = own.begin + begin; p < own.begin + end; ++p) {
      const auto places = candidates.listed(p, ordered, scratch);
      const auto distances = candidates.lists.distances(ordered.point(p));
      const std::uint32_t bit = Sketches::bit_of(static_cast<std::uint32_t>(p));
      for (const std::uint32_t place : places) sketches.prefetch(place, bit);
      for (std::size_t j = 0; j < places.size(); ++j)
        if (sketches.wants(places[j], bit, distances[j])) offers.push_back({places[j], ordered.point(p), distances[j]});
    }
  });
  return pieces;
}

}  // namespace

void exchange_neighbors(const OrderedRows& ordered, Candidates& candidates, unsigned threads, const Team* team,
                        std::span<const std::size_t> shares) {
  const TeamShare own = own_share(team, shares);
  const std::size_t size = own.end - own.begin;
  NeighborLists& lists = candidates.lists;
  std::vector<std::vector<Offer>> pieces =
      make_offers(ordered, candidates, Sketches(ordered, candidates, threads, team, shares), threads, own);
  if (team != nullptr) {
    std::vector<Offer> offers;
    for (const auto& piece : pieces) offers.insert(offers.end(), piece.begin(), piece.end());
    pieces = {team_concatenation(team, std::move(offers))};
  }
  // By receiver, in the order of the givers.
  std::vector<std::uint64_t> begins(size + 1, 0);
  for (const auto& piece : pieces)
    for (const Offer& offer : piece)
      if (offer.to - own.begin < size) ++begins[offer.to - own.begin + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<Found> offered(begins.back());
  {
    std::vector<std::uint64_t> next(begins.begin(), begins.end() - 1);
    for (const auto& piece : pieces)
      for (const Offer& offer : piece)
        if (offer.to - own.begin < size) offered[next[offer.to - own.begin]++] = {offer.from, offer.squared};
  }
  pieces = {};
  parallel_for(size, 2048, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    std::vector<Found> merged;
    std::vector<std::uint32_t> left;
    PlaceSet on_list(candidates.refreshable() ? ordered.size() : 0);
    for (std::size_t p = begin; p < end; ++p) {
      if (begins[p] == begins[p + 1]) continue;
      const auto ids = lists.ids(ordered.point(own.begin + p));
      const auto distances = lists.distances(ordered.point(own.begin + p));
      merged.assign(offered.data() + begins[p], offered.data() + begins[p + 1]);
      for (std::size_t j = 0; j < ids.size(); ++j) merged.push_back({ids[j], distances[j]});
      const auto listed = merged.begin() + static_cast<std::ptrdiff_t>(begins[p + 1] - begins[p]);
      std::sort(merged.begin(), listed);
      std::inplace_merge(merged.begin(), listed, merged.end());
      for (std::size_t j = 0; j < ids.size(); ++j) {
        ids[j] = merged[j].id;
        distances[j] = merged[j].distance;
      }
      candidates.keep_list(own.begin + p, ordered, on_list, left);
    }
  });
}

}  // namespace smartmine
