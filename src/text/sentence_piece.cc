#include "text/sentence_piece.h"

#include <cstring>
#include <optional>

#include "core/error.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace longformer::text {
namespace {

/// A field of a message: a number, or bytes.
struct Field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;
  std::string_view bytes = {};
};

/// Fields of a message, one after another.
class Message {
 public:
  Message(std::string_view bytes, const std::string& name) : rest_(bytes), name_(name) {}

  /// Nothing behind the last one.
  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const std::uint64_t key = varint();
    Field field = {.number = key >> 3};
    switch (key & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.bytes = taken(8);
        break;
      case 2:
        field.bytes = taken(varint());
        break;
      case 5:
        field.bytes = taken(4);
        break;
      default:
        refuse();
    }
    return field;
  }

  [[noreturn]] void refuse() const {
    fail("{}: expected a SentencePiece model, found other or missing bytes", name_);
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(taken(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    refuse();
  }

  std::string_view taken(std::uint64_t size) {
    if (size > rest_.size()) refuse();
    const std::string_view part = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return part;
  }

  std::string_view rest_;
  const std::string& name_;
};

SentencePieceModel::Piece piece_of(std::string_view bytes, const std::string& name) {
  SentencePieceModel::Piece piece;
  Message message(bytes, name);
  while (const auto field = message.next()) {
    if (field->number == 1) {
      piece.text = field->bytes;
      require(is_valid_utf8(piece.text), "{}: expected pieces in UTF-8, found other bytes", name);
    } else if (field->number == 2) {
      float score = 0;
      if (field->bytes.size() != sizeof score) message.refuse();
      std::memcpy(&score, field->bytes.data(), sizeof score);
      piece.score = static_cast<double>(score);
    } else if (field->number == 3) {
      if (field->value < 1 || field->value > 6) message.refuse();
      piece.type = static_cast<SentencePieceModel::Type>(field->value);
    }
  }
  return piece;
}

void read_trainer(std::string_view bytes, const std::string& name, SentencePieceModel& model) {
  Message message(bytes, name);
  while (const auto field = message.next()) {
    constexpr std::uint64_t kModelType = 3, kUnknown = 40, kUnigram = 1;
    if (field->number == kModelType) model.is_unigram = field->value == kUnigram;
    if (field->number != kUnknown) continue;
    if (field->value >= static_cast<std::uint64_t>(Vocabulary::id_limit)) message.refuse();
    model.unknown = static_cast<std::int32_t>(field->value);
  }
}

}  // namespace

SentencePieceModel parse_sentence_piece(std::string_view bytes, const std::string& name) {
  SentencePieceModel model;
  Message message(bytes, name);
  while (const auto field = message.next()) {
    if (field->number == 1) {
      model.pieces.push_back(piece_of(field->bytes, name));
    } else if (field->number == 2) {
      read_trainer(field->bytes, name, model);
    } else if (field->number == 3) {
      Message normalizer(field->bytes, name);
      while (const auto part = normalizer.next()) {
        if (part->number == 2) model.character_map = part->bytes;
      }
    }
  }
  require(static_cast<std::size_t>(model.unknown) < model.pieces.size(),
          "{}: expected the unknown token {} among the pieces, found {} pieces", name,
          model.unknown, model.pieces.size());
  return model;
}

}  // namespace longformer::text
