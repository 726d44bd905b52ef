// Texts: files, their lines and encodings, and the tokens that a model reads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/options.h"

namespace longformer {

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

/// All bytes of a file, a pipe or, by the name "-", standard input; what is in an archive of gzip,
/// xz or zstd is unpacked. `is_enough` is asked once of the first bytes, some thousands where there
/// are so many: whether the rest is of no use. Throws Error with the system's reason, and for an
/// archive that is damaged.
std::string input_bytes(const std::string& path,
                        const std::function<bool(std::string_view beginning)>& is_enough = {});

/// The name of what is in an archive: "a.csv" for "a.csv.gz", "a.csv.xz" and "a.csv.zst", in any
/// case; other names as they are.
std::string unpacked_name(const std::string& file);

/// A whole text at once.
std::string decoded_text(std::string bytes, const TextEncoding& encoding, const std::string& name);

/// The lines of a file, a pipe or, by the name "-", standard input. A line ends with LF, CR LF or
/// CR, as Python reads text files. A line is there as soon as its bytes are: a pipe is not read
/// ahead. What is in an archive of gzip, xz or zstd is unpacked.
class TextLines {
 public:
  /// Throws Error with the system's reason when the input cannot be read.
  explicit TextLines(std::string path, const TextEncoding& encoding = {});
  /// Reads bytes that were read before; `path` is where they come from, for messages.
  TextLines(std::string path, std::shared_ptr<const std::string> bytes,
            const TextEncoding& encoding = {});
  ~TextLines();
  TextLines(TextLines&&) noexcept;
  TextLines& operator=(TextLines&&) noexcept;

  /// Whether there was one more line; without its line break, and without a byte-order mark. What
  /// is not in the encoding is U+FFFD. Throws Error when reading fails.
  bool next(std::string& line);
  /// The line that next() gives next; null at the end.
  const std::string* peek();
  /// Number of the line read last, from 1.
  std::int64_t number() const;
  /// The line break of the line read last; empty at the end of the input.
  std::string_view line_break() const;
  /// About how many bytes of the input the line read last took.
  std::int64_t bytes() const;
  const std::string& path() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// The values of JSON lines, or of another stream of JSON objects and lists: over several lines, as
/// jq writes them, and several on one line. Lines that are values, as most are, cost nothing more.
class JsonValues {
 public:
  explicit JsonValues(TextLines lines);
  ~JsonValues();
  JsonValues(JsonValues&&) noexcept;
  JsonValues& operator=(JsonValues&&) noexcept;

  /// Whether there was one more value: its text, or text that is none. A line that is broken is one
  /// such text; a broken value over several lines ends before the line where the next one begins.
  /// Blank lines are left out. `is_json` says whether a text is one value; it is called with
  /// the text that is returned, after others perhaps. Throws Error when reading fails.
  bool next(std::string& text, const std::function<bool(const std::string&)>& is_json);
  /// First line of the value that was read last, from 1.
  std::int64_t number() const;
  /// Number of the value among those that begin on this line; 0: it is the first.
  std::int64_t record() const;
  /// About how many bytes of the input the value took; of several on a line, the first has all.
  std::int64_t bytes() const;
  /// Lines that were read so far.
  std::int64_t lines() const;
  const std::string& path() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// "17", or "17:2" for the second value that begins on line 17.
std::string line_and_record(std::int64_t line, std::int64_t record);

enum class DocumentFormat { text, markdown, html };

/// Parses text, markdown or html. Throws Error for anything else.
DocumentFormat document_format(const std::string& name);

/// Format by the suffix of a name, in any case: .md and .markdown, .html, .htm and .xhtml; a name
/// without a suffix is HTML when the content begins with <!doctype html or <html. All else is text.
DocumentFormat document_format_of(const std::string& file, std::string_view content);

/// Whether what begins so cannot be text: it has a byte 0, and is neither UTF-16 nor UTF-32 by its
/// byte-order mark, nor UTF-16 by its bytes.
bool is_binary(std::string_view beginning);

/// The text of a document in UTF-8. Of Markdown (as GitHub reads it, with HTML inside) and HTML
/// that is what a reader sees: no markup, comments, scripts, styles or titles, nothing that has the
/// attribute hidden; references by the tables of the HTML standard; white space as a browser shows
/// it; an empty line between blocks (paragraphs, headings, tables, …), a new line for list items,
/// rows and <br>, a tab between cells. Broken pages are read as far as they make sense.
///
/// The charset is what a byte-order mark says (UTF-8, UTF-16 or UTF-32, which leaves it out), or a
/// page itself, else `encoding`, whose notes call the document `name`; what is not in the charset
/// becomes U+FFFD. Throws Error for a charset that nobody knows, and for what is no text: with
/// bytes 0, or most of it outside the charset.
std::string document_text(std::string_view content, DocumentFormat format,
                          const TextEncoding& encoding = {}, const std::string& name = {});

// Text to token ids and back, equal to Hugging Face `tokenizers` (docs/spec/tokenizers.md).

/// Half-open range of characters (Unicode code points) of the input text.
struct CharacterSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const CharacterSpan&) const = default;
};

/// The tokens of one text or pair. All vectors have one element per token.
struct Encoding {
  std::vector<std::int32_t> ids;
  /// Place of each token, in characters of its own sequence; {0, 0} for special tokens.
  std::vector<CharacterSpan> offsets;
  std::vector<std::int32_t> type_ids;
  /// 1 for tokens that the template added.
  std::vector<std::uint8_t> special_tokens_mask;
  /// 0 for the first text, 1 for its pair, −1 for special tokens.
  std::vector<std::int8_t> sequence_ids;
  /// How many tokens truncation removed from both texts together.
  std::int64_t truncated = 0;
};

enum class TruncationStrategy { longest_first, only_first, only_second };

struct EncodeOptions {
  bool add_special_tokens = true;
  /// Length limit in tokens with the special ones; nothing is cut when it is absent.
  std::optional<std::int64_t> max_length;
  TruncationStrategy strategy = TruncationStrategy::longest_first;
};

/// Ids of the tokens with a role; absent when the tokenizer has none.
struct SpecialTokens {
  std::optional<std::int32_t> cls, sep, pad, mask, unk, bos, eos;
};

/// The folder whose tokenizer belongs to a model with a LoRA adapter: that of the adapter where it
/// has one, else that of the model. An empty adapter is none.
std::string tokenizer_folder(const std::string& folder, const std::string& adapter);

class Tokenizer {
 public:
  /// Reads tokenizer.json, or vocab.json with merges.txt, or vocab.txt (in this order), and
  /// tokenizer_config.json, special_tokens_map.json and added_tokens.json where they exist. Length
  /// limits and padding that the files ask for are not applied: only EncodeOptions cut. A folder
  /// whose config.json has the vocabulary "bytes" needs none of the files.
  /// Throws Error for a folder without tokenizer files, and for files that are malformed or of an
  /// unsupported kind. `added` are further special tokens; those that the folder does not have get
  /// the ids behind all others, in their order. With `lowercase` every text is lower-cased before
  /// anything else, as do_lower_case of sentence-transformers asks.
  /// An entry of the vocabulary among `added` becomes a special token.
  static Tokenizer load(const std::string& folder, std::span<const std::string> added = {},
                        bool lowercase = false);

  /// The same tokenizer for a model whose table has `rows` rows. Its encode functions throw Error,
  /// naming the token, for a text with a token behind them.
  Tokenizer with_rows(std::int64_t rows) const;

  /// The same tokenizer without the special tokens around texts.
  Tokenizer without_template() const;

  /// Tokens of a text. Invalid UTF-8 is read as U+FFFD, one per maximal ill-formed part.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// Tokens of a pair in the pair template of the tokenizer.
  Encoding encode_pair(std::string_view text, std::string_view pair,
                       const EncodeOptions& options = {}) const;

  /// Seconds that the calling thread has spent so far on tokens of texts, by any tokenizer; in a
  /// call that encodes on a thread of its own it is the time in which the model had to wait.
  static double seconds_spent();

  /// The text of the ids, as `tokenizers` decodes it. Throws Error for an id out of range.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = true) const;

  /// The vocabulary entry of an id (with its markers, such as "Ġ", "▁" or "##"); of an added token
  /// that is looked for in normalised text its normal form, as `tokenizers` says it. Throws Error
  /// when out of range.
  std::string token(std::int32_t id) const;
  std::optional<std::int32_t> id(std::string_view token) const;
  /// The ids of texts are below this number (added tokens included).
  std::int64_t vocabulary_size() const;
  const SpecialTokens& special_tokens() const;
  /// "byte-level BPE", "WordPiece", "Unigram", "BPE", "WordLevel" or "bytes".
  std::string kind() const;
  /// How the tokens may differ from those of transformers, one sentence each.
  const std::vector<std::string>& notes() const;

 private:
  struct Implementation;
  explicit Tokenizer(std::shared_ptr<const Implementation> implementation);
  void check_rows(const Encoding& encoding) const;
  std::shared_ptr<const Implementation> implementation_;
  /// Rows of the model's table; any number where it is not known.
  std::int64_t rows_ = std::int64_t{1} << 31;
  bool has_template_ = true;
};

/// Byte position of every character of a UTF-8 text and, as last element, its size: turns character
/// spans into substrings. Invalid bytes count as Encoding counts them.
std::vector<std::size_t> character_starts(std::string_view text);

// How long documents are in tokens: the rows of Table 6 of the Longformer paper, for any texts.

struct TokenStatistics {
  std::int64_t documents = 0, tokens = 0;
  double mean = 0;
  /// Between two lengths they are interpolated, as numpy does it.
  double median = 0, p95 = 0;
  std::int64_t max = 0;
  /// Shares of the documents, from 0 to 1.
  double share_over_512 = 0, share_over_4096 = 0;
};

/// Statistics of the lengths of documents, in any order. Throws Error when there are none.
TokenStatistics token_statistics(std::vector<std::int64_t> lengths);

}  // namespace longformer
