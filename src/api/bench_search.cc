#include <vector>

#include "api/measurement.h"
#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "kernels/vector_scan.h"
#include "longformer/analysis.h"

namespace longformer {

SearchBenchResult bench_search(const SearchBenchOptions& options) {
  check_positive({{"passages", options.passages},
                  {"vector_size", options.vector_size},
                  {"top_k", options.top_k},
                  {"repeats", options.repeats}});
  const std::size_t width = at(options.vector_size);
  kernels::ByteVectors vectors;
  vectors.width = options.vector_size;
  vectors.reserve(options.passages);
  std::vector<std::int8_t> bytes(width);
  std::uint64_t state = 1;
  for (Index i = 0; i < options.passages; ++i) {
    for (std::int8_t& byte : bytes) {
      state = random_bits(state, 1);
      byte = static_cast<std::int8_t>(static_cast<int>(state % 255) - 127);
    }
    vectors.append(bytes, 1e-3f);
  }
  const std::vector<float> question(width, 0.05f);
  std::vector<float> scores(at(options.passages));
  SearchBenchResult result = {.options = options};
  result.threads = checked_threads(options.threads);
  const Timing timing = measure(options.repeats, [&] {
    kernels::scan(vectors, question, scores, result.threads);
    kernels::best(scores, options.top_k);
  });
  result.seconds = timing.median;
  result.bytes = static_cast<double>(vectors.bytes.size());
  result.read_bytes_per_second = read_rate(result.threads);
  return result;
}

}  // namespace longformer
