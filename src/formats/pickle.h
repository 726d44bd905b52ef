// Python pickles as data: an allow-list of opcodes and names, of which none is called or imported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longformer::formats {

/// One object of a pickle. Objects refer to each other by their place in Pickle::objects.
struct PickleObject {
  enum class Kind : std::uint8_t {
    none,
    boolean,     ///< `integer` is 0 or 1
    integer,     ///< `integer`
    number,      ///< `number`
    text,        ///< `text`; strings and byte strings alike
    name,        ///< `text`: module and name of something importable, "torch FloatStorage"
    tuple,       ///< `items`
    list,        ///< `items`
    dictionary,  ///< `items`: key, value, key, value, …
    call,        ///< `function` with `arguments`; `items` as of a dictionary, set afterwards
    persistent,  ///< `arguments`: what the pickler wrote in place of an object
  };
  Kind kind = Kind::none;
  std::int64_t integer = 0;
  double number = 0;
  std::string_view text = {};
  std::vector<std::uint32_t> items = {};
  std::uint32_t function = 0;
  std::uint32_t arguments = 0;
};

/// "a dictionary", "a call of torch.Size", …: for messages.
std::string described(const PickleObject& object);

struct Pickle {
  std::vector<PickleObject> objects;
  std::uint32_t root = 0;
  /// Bytes up to and with the STOP opcode.
  std::size_t bytes = 0;

  const PickleObject& operator[](std::uint32_t place) const { return objects[place]; }
};

struct PickleLimits {
  /// Names that may occur, "module name" each.
  std::span<const std::string_view> names;
  std::size_t objects = 2'000'000;
  std::size_t levels = 100;
};

/// Reads the pickle at the start of `bytes`, protocols 2 to 5, which must outlive the result.
/// `where` stands for it in messages. Throws Error for every opcode that would need code to run,
/// for every name that is not allowed, for malformed data and beyond the limits.
Pickle read_pickle(std::span<const std::byte> bytes, const PickleLimits& limits,
                   const std::string& where);

}  // namespace longformer::formats
