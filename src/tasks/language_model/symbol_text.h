// Text for language models: files, and their parts by position (docs/spec/language-models.md#d4).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "longformer/language_model.h"
#include "tasks/language_model/symbols.h"

namespace longformer::tasks {

/// Files as symbols of a model. Bytes become numbers when they are asked for; tokens are made
/// once.
class SymbolText {
 public:
  /// Throws Error for no file, for one that cannot be read and for bytes that the model does not
  /// have. The symbols must live as long.
  SymbolText(const LanguageModelText& data, const Symbols& symbols);

  /// Symbols.
  Index size() const;
  /// The first file, and how many follow it.
  const std::string& name() const { return name_; }
  /// Numbers of so many symbols from a place on, which must all be there.
  std::vector<std::int32_t> ids(Index begin, Index count) const;

  /// Symbols of the text.
  struct Range {
    Index begin = 0;
    Index end = 0;
    Index size() const { return end - begin; }
  };
  /// Parts are cut by bytes, so that models of tokens and of bytes read the same.
  Range part(TextPart part) const;

  /// The bytes of a range.
  std::string_view bytes(Range range) const;

 private:
  void read(const std::string& file, const LanguageModelText& data);
  /// Byte at which a symbol begins.
  Index byte_of(Index symbol) const;

  std::string name_;
  const Symbols& symbols_;
  std::string text_;
  /// Tokens of the parts behind each other; empty where symbols are bytes.
  Symbols::Tokens tokens_;
  /// First positions of validation and test.
  Index validation_ = 0, test_ = 0;
};

/// Words between white space.
Index count_words(std::string_view text);

}  // namespace longformer::tasks
