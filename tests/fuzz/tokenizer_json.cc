// tokenizer.json: what loads can encode.
#include <fstream>

#include "tokenizer_testing.h"

namespace {

/// A folder of this process.
const std::string& folder() {
  static const std::string name = [] {
    std::string pattern = "/tmp/longformer-fuzz-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    return pattern;
  }();
  return name;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  std::ofstream(folder() + "/tokenizer.json", std::ios::binary) << fuzzing::text_of(data, size);
  fuzzing::expect_result_or_error([] {
    const Tokenizer tokenizer = Tokenizer::load(folder());
    fuzzing::check_tokens(tokenizer, "Hello, wörld! it's 12 <mask> [SEP]\n\xff \xf0\x9f\x98\x80");
  });
  return 0;
}
