// Results: stdout or a file, as text, JSON lines or a NumPy array. Every write is checked.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/report.h"
#include "longformer/text.h"

namespace longformer::cli {

/// The reader of our output has gone; not an error of ours.
class BrokenPipe : public std::exception {};

/// Results cannot be written; unlike Error it concerns no single document and ends the run.
class WriteError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Whether a file to write is called "-", as standard input is where a file is read.
bool is_standard_output(const std::string& file);

/// Target of results. A file is written under a temporary name and renamed by finish(), so that a
/// failure leaves no half result. Throws WriteError when writing fails, BrokenPipe when nobody
/// reads.
class Output {
 public:
  Output();
  /// "-" is stdout.
  explicit Output(const std::string& file);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// A terminal gets control characters as text that can be seen: what a document holds is for
  /// readers, not for terminals. Elsewhere the text stays as it is.
  void write(std::string_view text);
  /// Writes text that is already safe and marked for a terminal.
  void write_marked(std::string_view text);
  /// Writes a JSON object: on a line of its own, or in a file that ends in .json as a part of the
  /// list that finish() closes.
  void write_object(std::string_view object);
  /// Hands over what was written so far, for readers that wait for it.
  void flush();
  /// Goes back to byte 0 of a file; for headers that need what follows.
  void rewind();
  /// Flushes, closes and puts the file in its place.
  void finish();
  bool is_terminal() const { return is_terminal_; }
  /// Whether rewind() works: an ordinary file.
  bool can_rewind() const { return temporary_ != file_; }

 private:
  [[noreturn]] void fail_write() const;

  std::FILE* stream_;
  bool is_terminal_;
  std::string file_;
  std::string temporary_;
  bool holds_list_ = false;
  bool is_empty_ = true;
  std::int64_t objects_ = 0;
};

/// Header of a float32 array in NumPy's format.
std::string npy_header(std::span<const std::int64_t> shape);

/// A float32 matrix in NumPy's format. To a file rows stream; elsewhere they are kept until their
/// number is known.
class NpyWriter {
 public:
  NpyWriter(Output& output, std::int64_t columns);
  void write_rows(std::span<const float> values);
  void finish();

 private:
  std::string header() const;

  Output& output_;
  std::int64_t columns_;
  std::int64_t rows_ = 0;
  std::vector<float> kept_;
};

/// The text with every control character, such as a line break or a tab, as a space.
std::string on_one_line(std::string_view text);
/// "12.3 MB", in powers of 1000.
std::string bytes_text(double bytes);
/// 12345678 as "12,345,678".
std::string grouped(std::int64_t number);

/// One value of each layer, of which there is one at least: "512", or "64, 128" where they differ.
std::string values_of_layers(std::span<const std::int64_t> values);
/// A fraction of a bound: "0.87", and "≥ 1" above it, where part of the weights stays in cache.
std::string bound_text(double fraction, int digits = 2);
/// "1 document", "2,000 documents"; `many` where it is not `one` and an s.
std::string counted(std::int64_t number, std::string_view one, std::string_view many = {});
/// Input of a user in the form that a message may show: in quotes, on one line, of at most 80
/// bytes.
std::string in_quotes(std::string_view text);

}  // namespace longformer::cli
