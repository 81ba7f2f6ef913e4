// Syntax trees of templates. Immutable once parsed, and shallow: the parser bounds the depth of every tree,
// so that whoever walks or frees one may recurse.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace penstock::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

enum class ExpressionKind : uint8_t {
  kConstant,   // constant
  kName,       // name
  kList,       // children
  kTuple,      // children
  kDict,       // children: key, value, key, value ...
  kAttribute,  // children[0] . name
  kItem,       // children[0] [ children[1] ]
  kSlice,      // children[0] [ children[1] : children[2] : children[3] ], each but the first may be null
  kCall,       // children[0] ( children[1] ..., named )
  kFilter,     // children[0] | name ( children[1] ..., named ); children[0] null: the block it stands before
  kTest,       // children[0] is name ( children[1] ..., named )
  kNot,        // children[0]
  kNegate,     // children[0]
  kPlus,       // children[0]
  kAnd,        // children[0], children[1]
  kOr,         // children[0], children[1]
  kBinary,     // children[0] name children[1], arithmetic
  kCompare,    // children[0] operators[0] children[1] operators[1] ...
  kConcat,     // children, joined as text
  kConditional,  // children[0] if children[1] else children[2] (may be null)
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  int line = 0;
  int depth = 1;
  std::string name;
  Value constant;
  std::vector<ExpressionPtr> children;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  std::vector<std::string> operators;
};

struct Statement;
using Body = std::vector<std::unique_ptr<const Statement>>;

enum class StatementKind : uint8_t {
  kText,       // text
  kOutput,     // expression
  kIf,         // branches; otherwise
  kFor,        // targets in expression, if condition: body; otherwise
  kSet,        // targets = expression, or targets[0] . attribute
  kSetBlock,   // targets[0] = body, through filters
  kMacro,      // name(targets = defaults): body
  kCallBlock,  // expression is the call; targets = defaults are the caller's parameters; body
  kFilter,     // filters over body
  kWith,       // targets = defaults: body
  kBreak,
  kContinue,
  kGeneration,  // body
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  Value text;
  std::string name;
  std::string attribute;
  std::vector<std::string> targets;
  std::vector<ExpressionPtr> defaults;  // as many as targets; null: no default
  ExpressionPtr expression;
  ExpressionPtr condition;
  std::vector<ExpressionPtr> filters;  // kFilter nodes whose children[0] is null, in order of application
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body body;
  Body otherwise;
  bool recursive = false;
};

struct Template {
  Body body;
};

}  // namespace penstock::jinja
