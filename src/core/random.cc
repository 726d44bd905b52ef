#include "core/random.h"

#include <functional>

#include "core/threads.h"

namespace longformer {

Tensor random_normal_tensor(const Shape& shape, float deviation, std::uint64_t seed) {
  Tensor tensor(shape, DType::f32);
  constexpr Index kChunk = 1 << 16;
  float* values = tensor.data<float>();
  const Index size = tensor.size();
  parallel_for(available_threads(), (size + kChunk - 1) / kChunk, [&](Index chunk) {
    const Index end = std::min(size, (chunk + 1) * kChunk);
    for (Index i = chunk * kChunk; i < end; ++i) {
      values[i] = deviation * random_normal(seed, static_cast<std::uint64_t>(i));
    }
  });
  return tensor;
}

}  // namespace longformer
