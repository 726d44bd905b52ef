// Runs a tokenizer over many texts, for comparison with the `tokenizers` package and for timing.
//
//   tokenizer_dump FOLDER RECORDS RESULTS     writes what encode returns for each record
//   tokenizer_dump FOLDER RECORDS --time N    prints the seconds of N passes, one per line
//   tokenizer_dump FOLDER --decode IDS RESULTS
//   tokenizer_dump FOLDER --load N            prints the seconds of N loads, one per line
//
// A record is five little-endian 32-bit integers (size of the text, size of its pair or −1, length
// limit or −1, truncation strategy, whether to add special tokens), the text and the pair. A result
// is the number of tokens (−1 for an error), then as 32-bit integers the ids, begins, ends, type
// ids, special marks and sequence ids, and the number of truncated tokens. Decoding takes and gives
// records of a 32-bit count followed by ids, or bytes.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "longformer/error.h"
#include "longformer/text.h"

namespace {

using longformer::Encoding;
using longformer::Tokenizer;

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw longformer::Error(path + ": expected a readable file");
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Record {
  std::string text, pair;
  bool has_pair = false;
  longformer::EncodeOptions options;
};

std::vector<Record> read_records(const std::string& path) {
  const auto bytes = read_all(path);
  std::vector<Record> records;
  std::size_t position = 0;
  while (position < bytes.size()) {
    std::int32_t header[5];
    std::memcpy(header, bytes.data() + position, sizeof header);
    position += sizeof header;
    Record record;
    record.text = bytes.substr(position, static_cast<std::size_t>(header[0]));
    position += record.text.size();
    record.has_pair = header[1] >= 0;
    if (record.has_pair) record.pair = bytes.substr(position, static_cast<std::size_t>(header[1]));
    position += record.pair.size();
    if (header[2] >= 0) record.options.max_length = header[2];
    record.options.strategy = static_cast<longformer::TruncationStrategy>(header[3]);
    record.options.add_special_tokens = header[4] != 0;
    records.push_back(std::move(record));
  }
  return records;
}

Encoding encode(const Tokenizer& tokenizer, const Record& record) {
  return record.has_pair ? tokenizer.encode_pair(record.text, record.pair, record.options)
                         : tokenizer.encode(record.text, record.options);
}

void write(std::ofstream& out, const std::vector<std::int32_t>& values) {
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(std::int32_t)));
}

void dump(const Tokenizer& tokenizer, const std::vector<Record>& records, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  for (const auto& record : records) {
    Encoding encoding;
    try {
      encoding = encode(tokenizer, record);
    } catch (const longformer::Error&) {
      write(out, {-1});
      continue;
    }
    std::vector<std::int32_t> values{static_cast<std::int32_t>(encoding.ids.size())};
    values.insert(values.end(), encoding.ids.begin(), encoding.ids.end());
    for (const auto& span : encoding.offsets)
      values.push_back(static_cast<std::int32_t>(span.begin));
    for (const auto& span : encoding.offsets) values.push_back(static_cast<std::int32_t>(span.end));
    values.insert(values.end(), encoding.type_ids.begin(), encoding.type_ids.end());
    values.insert(values.end(), encoding.special_tokens_mask.begin(),
                  encoding.special_tokens_mask.end());
    values.insert(values.end(), encoding.sequence_ids.begin(), encoding.sequence_ids.end());
    values.push_back(static_cast<std::int32_t>(encoding.truncated));
    write(out, values);
  }
}

void decode(const Tokenizer& tokenizer, const std::string& ids_path, const std::string& path) {
  const auto bytes = read_all(ids_path);
  std::ofstream out(path, std::ios::binary);
  std::size_t position = 0;
  while (position < bytes.size()) {
    std::int32_t count;
    std::memcpy(&count, bytes.data() + position, sizeof count);
    position += sizeof count;
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
    std::memcpy(ids.data(), bytes.data() + position, ids.size() * sizeof(std::int32_t));
    position += ids.size() * sizeof(std::int32_t);
    for (const bool skip : {true, false}) {
      const auto text = tokenizer.decode(ids, skip);
      write(out, {static_cast<std::int32_t>(text.size())});
      out.write(text.data(), static_cast<std::streamsize>(text.size()));
    }
  }
}

template <typename Job>
void time_passes(int passes, const Job& job) {
  for (int pass = 0; pass < passes; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    const auto tokens = job();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%.6f %zu\n", seconds.count(), tokens);
    std::fflush(stdout);
  }
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 3 && arguments[1] == "--load") {
    time_passes(std::stoi(arguments[2]), [&] {
      return static_cast<std::size_t>(Tokenizer::load(arguments[0]).vocabulary_size());
    });
    return 0;
  }
  if (arguments.size() < 3) return 2;
  const auto tokenizer = Tokenizer::load(arguments[0]);
  if (arguments[1] == "--decode") {
    if (arguments.size() < 4) return 2;
    decode(tokenizer, arguments[2], arguments[3]);
    return 0;
  }
  const auto records = read_records(arguments[1]);
  if (arguments[2] != "--time") {
    dump(tokenizer, records, arguments[2]);
    return 0;
  }
  if (arguments.size() < 4) return 2;
  time_passes(std::stoi(arguments[3]), [&] {
    std::size_t tokens = 0;
    for (const auto& record : records) tokens += encode(tokenizer, record).ids.size();
    return tokens;
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
