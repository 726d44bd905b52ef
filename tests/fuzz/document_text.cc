// Text of HTML, Markdown and plain files in any charset; the first byte chooses among them.
#include "fuzzing.h"
#include "longformer/text.h"
#include "text/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  if (size == 0) return 0;
  const std::string_view content = fuzzing::text_of(data + 1, size - 1);
  fuzzing::expect_result_or_error([&] {
    const auto format = static_cast<DocumentFormat>(data[0] % 3);
    const std::string text = document_text(content, format);
    if (!text::is_valid_utf8(text) || text.find('\0') != std::string::npos) std::abort();
  });
  return 0;
}
