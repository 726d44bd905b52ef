// A model file of SentencePiece of any bytes.
#include "text/sentence_piece.h"

#include "fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  fuzzing::expect_result_or_error(
      [&] { text::parse_sentence_piece(fuzzing::text_of(data, size), "input"); });
  return 0;
}
