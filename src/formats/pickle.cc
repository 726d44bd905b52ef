#include "formats/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "formats/json.h"

namespace longformer::formats {
namespace {

using Kind = PickleObject::Kind;

enum Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinFloat = 'G',
  kBinPersistent = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDictionary = '}',
  kAppend = 'a',
  kAppends = 'e',
  kBuild = 'b',
  kGlobal = 'c',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kSetItems = 'u',
  kTuple = 't',
  kProtocol = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

/// Runs the stack machine of pickles; what would call or import something only takes down its name.
class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const PickleLimits& limits, const std::string& where)
      : bytes_(bytes), limits_(limits), where_(where) {}

  Pickle run() {
    while (true) {
      const auto opcode = number<std::uint8_t>();
      if (opcode == kStop) break;
      const bool known = scalar(opcode) || text(opcode) || container(opcode) || memory(opcode) ||
                         application(opcode);
      require(known,
              "{}: expected a pickle of tensors, found the opcode 0x{:02x} at byte {}, which is "
              "not allowed",
              where_, opcode, place_ - 1);
    }
    require(marks_.empty() && stack_.size() == 1,
            "{}: expected a pickle of one object, found {} on its stack", where_, stack_.size());
    result_.root = stack_.back();
    result_.bytes = place_;
    return std::move(result_);
  }

 private:
  bool scalar(std::uint8_t opcode) {
    switch (opcode) {
      case kProtocol: {
        const auto version = number<std::uint8_t>();
        require(version >= 2 && version <= 5,
                "{}: expected a pickle of protocol 2 to 5, found protocol {}", where_, version);
        return true;
      }
      case kFrame:
        number<std::uint64_t>();
        return true;
      case kNone:
        push({});
        return true;
      case kNewTrue:
      case kNewFalse:
        push({.kind = Kind::boolean, .integer = opcode == kNewTrue});
        return true;
      case kBinInt:
        return integer(number<std::int32_t>());
      case kBinInt1:
        return integer(number<std::uint8_t>());
      case kBinInt2:
        return integer(number<std::uint16_t>());
      case kLong1:
        return integer(long_integer(number<std::uint8_t>()));
      case kLong4:
        return integer(long_integer(number<std::uint32_t>()));
      case kBinFloat: {
        const auto bits = __builtin_bswap64(number<std::uint64_t>());
        push({.kind = Kind::number, .number = std::bit_cast<double>(bits)});
        return true;
      }
      default:
        return false;
    }
  }

  bool text(std::uint8_t opcode) {
    switch (opcode) {
      case kShortBinString:
      case kShortBinBytes:
      case kShortBinUnicode:
        push({.kind = Kind::text, .text = take(number<std::uint8_t>())});
        return true;
      case kBinString:
      case kBinBytes:
      case kBinUnicode:
        push({.kind = Kind::text, .text = take(number<std::uint32_t>())});
        return true;
      case kBinUnicode8:
        push({.kind = Kind::text, .text = take(number<std::uint64_t>())});
        return true;
      default:
        return false;
    }
  }

  bool container(std::uint8_t opcode) {
    switch (opcode) {
      case kMark:
        marks_.push_back(stack_.size());
        require(marks_.size() <= limits_.levels, "{}: expected at most {} levels, found more",
                where_, limits_.levels);
        return true;
      case kEmptyTuple:
        push({.kind = Kind::tuple});
        return true;
      case kEmptyList:
        push({.kind = Kind::list});
        return true;
      case kEmptyDictionary:
        push({.kind = Kind::dictionary});
        return true;
      case kTuple:
        return tuple(to_mark());
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return tuple(top(static_cast<std::size_t>(opcode - kTuple1) + 1));
      case kAppend:
        return extend(top(1), true);
      case kAppends:
        return extend(to_mark(), true);
      case kSetItem:
        return extend(top(2), false);
      case kSetItems:
        return extend(to_mark(), false);
      default:
        return false;
    }
  }

  bool memory(std::uint8_t opcode) {
    switch (opcode) {
      case kBinPut:
        return remember(number<std::uint8_t>());
      case kLongBinPut:
        return remember(number<std::uint32_t>());
      case kMemoize:
        return remember(static_cast<std::uint32_t>(memo_.size()));
      case kBinGet:
        return recall(number<std::uint8_t>());
      case kLongBinGet:
        return recall(number<std::uint32_t>());
      case kPop:
        top(1);
        return true;
      case kPopMark:
        to_mark();
        return true;
      default:
        return false;
    }
  }

  bool application(std::uint8_t opcode) {
    switch (opcode) {
      case kGlobal: {
        const std::string_view module = line();
        return name(module, line());
      }
      case kStackGlobal: {
        const auto parts = top(2);
        return name(text_of(parts[0]), text_of(parts[1]));
      }
      case kReduce: {
        const auto parts = top(2);
        expect(parts[0], Kind::name, "the name of a function");
        expect(parts[1], Kind::tuple, "a tuple of arguments");
        push({.kind = Kind::call, .function = parts[0], .arguments = parts[1]}, {parts[1]});
        return true;
      }
      case kBinPersistent: {
        const auto parts = top(1);
        push({.kind = Kind::persistent, .arguments = parts[0]}, {parts[0]});
        return true;
      }
      case kBuild: {
        // Attributes of an ordered dictionary, such as the versions of its modules: nothing here
        // needs them.
        const auto state = top(1);
        expect(state[0], Kind::dictionary, "a dictionary of attributes");
        const auto object = peek();
        require(is_dictionary(object), "{}: expected attributes of a dictionary, found those of {}",
                where_, described(result_[object]));
        return true;
      }
      default:
        return false;
    }
  }

  template <typename Number>
  Number number() {
    const std::string_view raw = take(sizeof(Number));
    Number value = 0;
    std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }

  std::string_view take(std::uint64_t count) {
    require(count <= bytes_.size() - place_,
            "{}: expected {} bytes at byte {} of the pickle, found {}: the file is cut short",
            where_, count, place_, bytes_.size() - place_);
    const std::string_view taken(reinterpret_cast<const char*>(bytes_.data()) + place_,
                                 static_cast<std::size_t>(count));
    place_ += taken.size();
    return taken;
  }

  std::string_view line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + place_,
                                bytes_.size() - place_);
    const std::size_t length = rest.find('\n');
    require(length != std::string_view::npos, "{}: expected a name at byte {}, found no end of it",
            where_, place_);
    place_ += length + 1;
    return rest.substr(0, length);
  }

  std::int64_t long_integer(std::uint32_t size) {
    require(size <= 8, "{}: expected integers of at most 64 bits, found one of {} bytes", where_,
            size);
    const std::string_view raw = take(size);
    const bool is_negative = size > 0 && (static_cast<unsigned char>(raw.back()) & 0x80u) != 0;
    std::int64_t value = is_negative ? -1 : 0;
    std::memcpy(&value, raw.data(), raw.size());
    return value;
  }

  bool integer(std::int64_t value) {
    push({.kind = Kind::integer, .integer = value});
    return true;
  }

  bool name(std::string_view module, std::string_view name) {
    const auto allowed =
        std::find_if(limits_.names.begin(), limits_.names.end(), [&](std::string_view known) {
          return known.size() == module.size() + name.size() + 1 && known.starts_with(module) &&
                 known[module.size()] == ' ' && known.ends_with(name);
        });
    if (allowed == limits_.names.end()) {
      fail("{}: expected tensors only, found the name {}, which is not allowed: do not trust it",
           where_, quote(fmt::format("{}.{}", module, name)));
    }
    push({.kind = Kind::name, .text = *allowed});
    return true;
  }

  bool tuple(std::vector<std::uint32_t> items) {
    const std::vector<std::uint32_t> parts = items;
    push({.kind = Kind::tuple, .items = std::move(items)}, parts);
    return true;
  }

  /// Adds elements to the list, or keys and values to the dictionary, on top of the stack.
  bool extend(const std::vector<std::uint32_t>& items, bool is_list) {
    const std::uint32_t target = peek();
    const bool fits = is_list ? result_[target].kind == Kind::list : is_dictionary(target);
    require(fits, "{}: expected a {} to add to, found {}", where_, is_list ? "list" : "dictionary",
            described(result_[target]));
    require(is_list || items.size() % 2 == 0,
            "{}: expected pairs of key and value, found {} objects", where_, items.size());
    auto& all = result_.objects[target].items;
    all.insert(all.end(), items.begin(), items.end());
    deepen(target, items);
    return true;
  }

  bool remember(std::uint32_t key) {
    require(memo_.size() < limits_.objects, "{}: expected at most {} objects, found more", where_,
            limits_.objects);
    memo_[key] = peek();
    return true;
  }

  bool recall(std::uint32_t key) {
    const auto found = memo_.find(key);
    require(found != memo_.end(), "{}: expected an object seen before, found number {}", where_,
            key);
    stack_.push_back(found->second);
    return true;
  }

  void push(PickleObject object, const std::vector<std::uint32_t>& parts = {}) {
    require(result_.objects.size() < limits_.objects, "{}: expected at most {} objects, found more",
            where_, limits_.objects);
    const auto place = static_cast<std::uint32_t>(result_.objects.size());
    result_.objects.push_back(std::move(object));
    levels_.push_back(1);
    stack_.push_back(place);
    deepen(place, parts);
  }

  /// An object is one level deeper than the deepest of its parts.
  void deepen(std::uint32_t whole, const std::vector<std::uint32_t>& parts) {
    for (const std::uint32_t part : parts) {
      levels_[whole] = std::max(levels_[whole], levels_[part] + 1);
    }
    require(levels_[whole] <= limits_.levels, "{}: expected at most {} levels, found more", where_,
            limits_.levels);
  }

  /// Takes the last `count` objects from the stack.
  std::vector<std::uint32_t> top(std::size_t count) {
    const std::size_t bottom = marks_.empty() ? 0 : marks_.back();
    require(count <= stack_.size() - bottom, "{}: expected {} objects on the stack, found {}",
            where_, count, stack_.size() - bottom);
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<std::uint32_t> objects(first, stack_.end());
    stack_.erase(first, stack_.end());
    return objects;
  }

  std::vector<std::uint32_t> to_mark() {
    require(!marks_.empty(), "{}: expected a mark on the stack, found none", where_);
    std::vector<std::uint32_t> objects = top(stack_.size() - marks_.back());
    marks_.pop_back();
    return objects;
  }

  std::uint32_t peek() const {
    const std::size_t bottom = marks_.empty() ? 0 : marks_.back();
    require(stack_.size() > bottom, "{}: expected an object on the stack, found none", where_);
    return stack_.back();
  }

  void expect(std::uint32_t place, Kind kind, std::string_view what) const {
    require(result_[place].kind == kind, "{}: expected {}, found {}", where_, what,
            described(result_[place]));
  }

  std::string_view text_of(std::uint32_t place) const {
    expect(place, Kind::text, "a name");
    return result_[place].text;
  }

  bool is_dictionary(std::uint32_t place) const {
    const Kind kind = result_[place].kind;
    return kind == Kind::dictionary || kind == Kind::call;
  }

  std::span<const std::byte> bytes_;
  const PickleLimits& limits_;
  const std::string& where_;
  std::size_t place_ = 0;
  Pickle result_;
  std::vector<std::size_t> levels_;
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, std::uint32_t> memo_;
};

}  // namespace

std::string described(const PickleObject& object) {
  switch (object.kind) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return object.integer != 0 ? "True" : "False";
    case Kind::integer:
      return fmt::format("the number {}", object.integer);
    case Kind::number:
      return fmt::format("the number {}", object.number);
    case Kind::text:
      return quote(object.text);
    case Kind::name:
      return fmt::format("the name {}", quote(object.text));
    case Kind::tuple:
      return "a tuple";
    case Kind::list:
      return "a list";
    case Kind::dictionary:
      return "a dictionary";
    case Kind::call:
      return "an object";
    case Kind::persistent:
      return "a storage";
  }
  return "an object";
}

Pickle read_pickle(std::span<const std::byte> bytes, const PickleLimits& limits,
                   const std::string& where) {
  return Machine(bytes, limits, where).run();
}

}  // namespace longformer::formats
