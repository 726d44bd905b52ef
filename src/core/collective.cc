#include "core/collective.h"

#include <span>

#include "core/hash.h"

namespace longformer {

void sum_over(const Ranks& ranks, Tensor& values) {
  ranks.sum(std::span(values.data<float>(), static_cast<std::size_t>(values.size())));
}

std::uint64_t hash_of(const Tensor& values, std::uint64_t before) {
  return fnv1a({static_cast<const char*>(values.raw()), values.bytes()}, before);
}

}  // namespace longformer
