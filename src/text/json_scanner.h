// Ends of JSON values in text that comes line by line. Only the structure is looked at: whether a
// number or an escape is right is for a parser to say.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace longformer::text {

class JsonScanner {
 public:
  enum class State { open, whole, broken };

  /// Reads on from `begin` until the value ends, and returns the position behind it; at the end of
  /// a text that leaves the value open, or at its fault, another position. A string cannot go on in
  /// the next text, as strings of JSON hold no line breaks.
  std::size_t read(std::string_view text, std::size_t begin);
  State state() const { return state_; }

 private:
  enum class Wanted { value, element, key, member, colon, next };

  std::size_t read_token(std::string_view text, std::size_t at);
  void open(char bracket);
  void close(char bracket);
  void take_value();
  std::size_t fail(std::size_t at);

  State state_ = State::open;
  Wanted wanted_ = Wanted::value;
  /// The brackets that are open.
  std::string open_;
};

}  // namespace longformer::text
