#include "index/metadata_store.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"
#include "longformer/file_patterns.h"

namespace longformer::index {
namespace {

constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS fields (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS field_values (
  document INTEGER NOT NULL, field INTEGER NOT NULL, text TEXT NOT NULL, kind INTEGER NOT NULL,
  number REAL);
CREATE INDEX IF NOT EXISTS field_texts ON field_values (field, text, document);
CREATE INDEX IF NOT EXISTS field_numbers ON field_values (field, kind, number, document)
  WHERE number IS NOT NULL;
CREATE INDEX IF NOT EXISTS fields_of ON field_values (document);
ALTER TABLE documents ADD COLUMN metadata TEXT;
)";

/// The documents that a statement names in its first column.
void add_found(Statement& rows, std::vector<bool>& bits) {
  while (rows.step()) {
    const auto document = static_cast<std::size_t>(rows.integer(0));
    // Programs of before forget to remove the values of a document that they remove.
    if (document < bits.size()) bits[document] = true;
  }
}

/// The condition on a column that stands on the number line, with one parameter.
std::string_view sql_of(Comparison comparison) {
  switch (comparison) {
    case Comparison::less:
    case Comparison::at_most:
      return "number < ?";
    default:
      return "number >= ?";
  }
}

std::string_view text_sql_of(Comparison comparison) {
  switch (comparison) {
    case Comparison::less:
      return "text < ?";
    case Comparison::at_most:
      return "text <= ?";
    case Comparison::greater:
      return "text > ?";
    default:
      return "text >= ?";
  }
}

/// The end of the range that a value is compared with: "later than a day" is from its end on.
double bound_of(Comparison comparison, const ValueRange& range) {
  const bool is_end = comparison == Comparison::at_most || comparison == Comparison::greater;
  return is_end ? range.end : range.begin;
}

}  // namespace

void MetadataStore::find_tables() {
  has_tables_ =
      database_.prepare("SELECT 1 FROM pragma_table_info('documents') WHERE name = 'metadata'")
          .step();
}

void MetadataStore::make() {
  find_tables();
  if (has_tables_) return;
  Transaction transaction(database_);
  // Another process may have made them meanwhile.
  find_tables();
  if (!has_tables_) database_.run(kTables);
  transaction.commit();
  has_tables_ = true;
}

void MetadataStore::put(Index document, const std::string& metadata) const {
  note_change();
  if (metadata.empty()) return;
  database_.prepare("UPDATE documents SET metadata = ? WHERE id = ?")
      .bind(1, metadata)
      .bind(2, document)
      .run();
  Statement name = database_.prepare("INSERT OR IGNORE INTO fields (name) VALUES (?)");
  const std::string values = "INSERT INTO field_values SELECT ?, id, ?, ?, ";
  Statement plain = database_.prepare(values + "NULL FROM fields WHERE name = ?");
  Statement number = database_.prepare(values + "? FROM fields WHERE name = ?");
  for (const FieldValue& value : values_of(metadata)) {
    name.bind(1, value.field).run();
    const bool is_text = value.kind == ValueKind::text;
    Statement& insert = is_text ? plain : number;
    insert.bind(1, document).bind(2, value.text).bind(3, static_cast<std::int64_t>(value.kind));
    if (!is_text) insert.bind(4, value.number);
    insert.bind(is_text ? 4 : 5, value.field).run();
  }
}

void MetadataStore::remove(Index document) const {
  note_change();
  if (!has_tables_) return;
  database_.prepare("DELETE FROM field_values WHERE document = ?").bind(1, document).run();
}

std::vector<std::string> MetadataStore::fields() const {
  std::vector<std::string> names = {kPathField};
  if (!has_tables_) return names;
  Statement rows = database_.prepare(
      "SELECT name FROM fields WHERE name <> 'path' AND EXISTS "
      "(SELECT 1 FROM field_values WHERE field = fields.id) ORDER BY name");
  while (rows.step()) names.emplace_back(rows.text(0));
  return names;
}

std::optional<Index> MetadataStore::field_of(const std::string& name) const {
  if (!has_tables_) return std::nullopt;
  Statement row = database_.prepare(
      "SELECT id FROM fields WHERE name = ? AND EXISTS "
      "(SELECT 1 FROM field_values WHERE field = fields.id)");
  return row.bind(1, name).step() ? std::optional(row.integer(0)) : std::nullopt;
}

void MetadataStore::check(std::span<const Condition> conditions) const {
  for (const Condition& condition : conditions) {
    if (condition.field() == kPathField || field_of(condition.field())) continue;
    const std::string advice =
        has_tables_
            ? ""
            : "; the index is of an older program: documents that are added again get their "
              "metadata, and keep their vectors";
    fail(OptionName("filter"), "expected one of the fields of the index, {}, found '{}'{}",
         fmt::join(fields(), ", "), condition.field(), advice);
  }
}

std::vector<Index> MetadataStore::documents(std::span<const Condition> conditions) const {
  check(conditions);
  Statement last = database_.prepare("SELECT ifnull(max(id), 0) FROM documents");
  last.step();
  const std::size_t size = static_cast<std::size_t>(last.integer(0)) + 1;
  Bits all(size, true);
  // Numbers of documents begin with 1.
  all[0] = false;
  for (const Condition& condition : conditions) {
    const Bits one = holding(condition, size);
    for (std::size_t i = 0; i < size; ++i) all[i] = all[i] && one[i];
  }
  std::vector<Index> found;
  for (std::size_t i = 0; i < size; ++i) {
    if (all[i]) found.push_back(static_cast<Index>(i));
  }
  return found;
}

MetadataStore::Bits MetadataStore::holding(const Condition& condition, std::size_t size) const {
  Bits bits(size, false);
  if (condition.field() == kPathField) {
    add_by_path(condition, bits);
  } else {
    add_by_value(condition, bits);
  }
  if (condition.comparison() != Comparison::unequal) return bits;
  Bits others(size, false);
  Statement rows = database_.prepare("SELECT id FROM documents");
  add_found(rows, others);
  for (std::size_t i = 0; i < size; ++i) others[i] = others[i] && !bits[i];
  return others;
}

/// A document has the paths of its own field, else its name, with and without the number of a line.
void MetadataStore::add_by_path(const Condition& condition, Bits& bits) const {
  std::map<Index, std::vector<std::string>> own;
  if (const auto field = field_of(kPathField)) {
    Statement rows = database_.prepare("SELECT document, text FROM field_values WHERE field = ?");
    rows.bind(1, *field);
    while (rows.step()) own[rows.integer(0)].emplace_back(rows.text(1));
  }
  Statement rows = database_.prepare("SELECT id, name FROM documents");
  while (rows.step()) {
    const Index document = rows.integer(0);
    std::vector<std::string> paths;
    if (const auto known = own.find(document); known != own.end()) {
      paths = known->second;
    } else {
      paths.emplace_back(rows.text(1));
      if (std::string file = without_line(paths.front()); file != paths.front()) {
        paths.push_back(std::move(file));
      }
    }
    const bool holds = std::ranges::any_of(
        paths, [&](const std::string& path) { return condition.matches_path(path); });
    if (holds) bits.at(static_cast<std::size_t>(document)) = true;
  }
}

void MetadataStore::add_by_value(const Condition& condition, Bits& bits) const {
  const Index field = field_of(condition.field()).value_or(0);
  if (condition.comparison() == Comparison::has_part) {
    Statement rows = database_.prepare("SELECT document, text FROM field_values WHERE field = ?");
    rows.bind(1, field);
    while (rows.step()) {
      const auto document = static_cast<std::size_t>(rows.integer(0));
      if (document < bits.size() && condition.has_part(rows.text(1))) bits[document] = true;
    }
    return;
  }
  for (const Condition::Operand& operand : condition.operands()) {
    if (condition.is_ordering()) {
      add_ordered(condition, operand, bits);
      continue;
    }
    Statement rows =
        database_.prepare("SELECT document FROM field_values WHERE field = ? AND text = ?");
    rows.bind(1, field).bind(2, operand.text);
    add_found(rows, bits);
    for (const ValueRange& range : operand.ranges) {
      Statement numbers = database_.prepare(
          "SELECT document FROM field_values WHERE field = ? AND kind = ? AND number >= ? AND "
          "number < ?");
      numbers.bind(1, field).bind(2, static_cast<std::int64_t>(range.kind));
      numbers.bind(3, range.begin).bind(4, range.end);
      add_found(numbers, bits);
    }
  }
}

/// Numbers compare with numbers, dates with dates, and other texts by their characters.
void MetadataStore::add_ordered(const Condition& condition, const Condition::Operand& operand,
                                Bits& bits) const {
  const Index field = field_of(condition.field()).value_or(0);
  const Comparison comparison = condition.comparison();
  if (operand.ranges.empty()) {
    Statement rows = database_.prepare(fmt::format(
        "SELECT document FROM field_values WHERE field = ? AND {}", text_sql_of(comparison)));
    rows.bind(1, field).bind(2, operand.text);
    add_found(rows, bits);
  }
  for (const ValueRange& range : operand.ranges) {
    Statement rows = database_.prepare(
        fmt::format("SELECT document FROM field_values WHERE field = ? AND kind = ? AND {}",
                    sql_of(comparison)));
    rows.bind(1, field).bind(2, static_cast<std::int64_t>(range.kind));
    rows.bind(3, bound_of(comparison, range));
    add_found(rows, bits);
  }
}

const std::vector<std::pair<Index, Index>>& MetadataStore::owners() const {
  const Index version = database_.version();
  if (owners_version_ == version) return owners_;
  owners_.clear();
  // Rows of passages have their texts beside them, the index has not.
  Statement rows = database_.prepare("SELECT id, document FROM passages INDEXED BY passages_of");
  while (rows.step()) owners_.emplace_back(rows.integer(0), rows.integer(1));
  std::sort(owners_.begin(), owners_.end());
  owners_version_ = version;
  return owners_;
}

const std::vector<Index>& MetadataStore::passages(std::span<const std::string> expressions) const {
  const Index version = database_.version();
  if (found_version_ == version && std::ranges::equal(found_for_, expressions)) return found_;
  const std::vector<Condition> conditions(expressions.begin(), expressions.end());
  const std::vector<Index> documents = this->documents(conditions);
  Bits wanted(documents.empty() ? 0 : static_cast<std::size_t>(documents.back()) + 1, false);
  for (const Index document : documents) wanted[static_cast<std::size_t>(document)] = true;
  found_.clear();
  for (const auto& [passage, document] : owners()) {
    const auto place = static_cast<std::size_t>(document);
    if (place < wanted.size() && wanted[place]) found_.push_back(passage);
  }
  found_for_.assign(expressions.begin(), expressions.end());
  found_version_ = version;
  return found_;
}

void MetadataStore::note_change() const {
  owners_version_.reset();
  found_version_.reset();
}

}  // namespace longformer::index
