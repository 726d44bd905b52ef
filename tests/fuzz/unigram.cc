// Unigram tokens of any text.
#include "tokenizer_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  static const Tokenizer tokenizer = Tokenizer::load(LONGFORMER_FIXTURES "/tokenizers/xlm_roberta");
  fuzzing::check_tokens(tokenizer, fuzzing::text_of(data, size));
  return 0;
}
