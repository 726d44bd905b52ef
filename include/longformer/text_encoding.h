// How the bytes of text files become text, which is UTF-8 everywhere else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace longformer {

struct TextEncoding {
  /// "utf-8", "auto", or another one by the name that web pages use or iconv knows, as "latin-1"
  /// (which is read as windows-1252, as browsers do) or "utf-16". auto: UTF-8 where that is what
  /// all bytes are, else windows-1252. A byte-order mark (UTF-8, UTF-16, UTF-32) at the beginning
  /// of a text counts more than the name.
  std::string name = "utf-8";
  /// Is told of what is not in the encoding, of bytes 0, and of what auto takes for windows-1252:
  /// one line for each text, which begins with its name.
  std::function<void(const std::string& note)> note = {};
};

/// Throws Error for one that nobody knows.
void check(const TextEncoding& encoding);

/// Turns the bytes of one text into UTF-8, in pieces or at once. What is not in the encoding
/// becomes U+FFFD; a byte-order mark at the beginning is left out.
class TextDecoder {
 public:
  /// `name` stands for the text in notes.
  TextDecoder(const TextEncoding& encoding, std::string name);
  ~TextDecoder();
  TextDecoder(TextDecoder&&) noexcept;
  TextDecoder& operator=(TextDecoder&&) noexcept;

  /// Whether the pieces may be lines of a text that begins so: their breaks are bytes that stand
  /// for nothing else. Else the text has to be one piece.
  bool takes_lines(std::string_view beginning = {}) const;
  /// The text of the next bytes, with their line break where they are a line. Throws Error for an
  /// encoding that nobody knows.
  std::string next(std::string bytes);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// A whole text at once.
std::string decoded_text(std::string bytes, const TextEncoding& encoding, const std::string& name);

}  // namespace longformer
