#include "support/unit.h"

#include "support/script_cases.h"

static const struct script_case cases[] = {
    SCRIPT_CASE("return cjson.foo", "$-1\r\n"),
    SCRIPT_CASE("return tostring(cjson.null)", "$15\r\nuserdata: (nil)\r\n"),
    SCRIPT_CASE("return cjson.null", "$-1\r\n"),
    SCRIPT_CASE("return {cjson.null,1}", "*2\r\n$-1\r\n:1\r\n"),
    SCRIPT_CASE("cjson.decode(\"[\")",
                "-ERR user_script:1: Expected value but found T_END at character 2 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return cjson.encode({1,2,3})", "$7\r\n[1,2,3]\r\n"),
    SCRIPT_CASE("return cjson.encode({})", "$2\r\n{}\r\n"),
    SCRIPT_CASE("return cjson.encode({a=1})", "$7\r\n{\"a\":1}\r\n"),
    SCRIPT_CASE("return cjson.encode({[1]=1,[3]=3})", "$10\r\n[1,null,3]\r\n"),
    SCRIPT_CASE("return cjson.encode({[1]=1,[30]=3})",
                "-ERR user_script:1: Cannot serialise table: excessively sparse array script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return cjson.encode({[1]=1,[30]=3,a=1})", "$20\r\n{\"1\":1,\"a\":1,\"30\":3}\r\n"),
    SCRIPT_CASE("cjson.encode_sparse_array(true) local r=cjson.encode({[1]=1,[30]=3}) cjson.encode_sparse_array(false) "
                "return r",
                "$14\r\n{\"1\":1,\"30\":3}\r\n"),
    SCRIPT_CASE("return {cjson.encode_sparse_array()}", "*3\r\n$-1\r\n:2\r\n:10\r\n"),
    SCRIPT_CASE("return {cjson.encode_sparse_array(true,3,20),cjson.encode_sparse_array(false,2,10)}",
                "*4\r\n:1\r\n$-1\r\n:2\r\n:10\r\n"),
    SCRIPT_CASE("cjson.encode_sparse_array(1,2,3,4)",
                "-ERR user_script:1: bad argument #4 to 'encode_sparse_array' (found too many arguments) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode_sparse_array('x')",
                "-ERR user_script:1: bad argument #1 to 'encode_sparse_array' (invalid option 'x') script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode_sparse_array(nil,-1)",
                "-ERR user_script:1: bad argument #1 to 'encode_sparse_array' (expected integer between 0 and 2147483647) "
                "script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode_sparse_array(nil,1.5)", "$-1\r\n"),
    SCRIPT_CASE("return {cjson.encode_max_depth()}", "*1\r\n:1000\r\n"),
    SCRIPT_CASE("cjson.encode_max_depth(0)",
                "-ERR user_script:1: bad argument #1 to 'encode_max_depth' (expected integer between 1 and 2147483647) "
                "script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode_max_depth('x')",
                "-ERR user_script:1: bad argument #1 to 'encode_max_depth' (number expected, got string) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return {cjson.decode_max_depth()}", "*1\r\n:1000\r\n"),
    SCRIPT_CASE("return {cjson.encode_number_precision()}", "*1\r\n:14\r\n"),
    SCRIPT_CASE("cjson.encode_number_precision(15)",
                "-ERR user_script:1: bad argument #1 to 'encode_number_precision' (expected integer between 1 and 14) "
                "script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode_number_precision(17)",
                "-ERR user_script:1: bad argument #1 to 'encode_number_precision' (expected integer between 1 and 14) "
                "script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode_number_precision(0)",
                "-ERR user_script:1: bad argument #1 to 'encode_number_precision' (expected integer between 1 and 14) "
                "script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode_number_precision(3) local r=cjson.encode(math.pi) cjson.encode_number_precision(14) return r",
                "$4\r\n3.14\r\n"),
    SCRIPT_CASE("return {tostring(cjson.encode_keep_buffer())}", "*1\r\n$4\r\ntrue\r\n"),
    SCRIPT_CASE("return {tostring(cjson.encode_keep_buffer('off')),tostring(cjson.encode_keep_buffer(true))}",
                "*2\r\n$5\r\nfalse\r\n$4\r\ntrue\r\n"),
    SCRIPT_CASE("return {tostring(cjson.encode_invalid_numbers())}", "*1\r\n$5\r\nfalse\r\n"),
    SCRIPT_CASE("return {tostring(cjson.decode_invalid_numbers())}", "*1\r\n$4\r\ntrue\r\n"),
    SCRIPT_CASE("return "
                "{tostring(cjson.encode_invalid_numbers('null')),cjson.encode({1/0,0/0}),tostring(cjson.encode_invalid_numbers('on')),cjson.encode({1/0,-1/0,0/0}),tostring(cjson.encode_invalid_numbers(false))}",
                "*5\r\n$4\r\nnull\r\n$11\r\n[null,null]\r\n$4\r\ntrue\r\n$14\r\n[inf,-inf,nan]\r\n$5\r\nfalse\r\n"),
    SCRIPT_CASE("cjson.encode_invalid_numbers('foo')",
                "-ERR user_script:1: bad argument #1 to 'encode_invalid_numbers' (invalid option 'foo') script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode(1/0)",
                "-ERR user_script:1: Cannot serialise number: must not be NaN or Inf script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode(0/0)",
                "-ERR user_script:1: Cannot serialise number: must not be NaN or Inf script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode({a=0/0})",
                "-ERR user_script:1: Cannot serialise number: must not be NaN or Inf script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode({[1/0]=1})",
                "-ERR user_script:1: Cannot serialise number: must not be NaN or Inf script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode(function() end)",
                "-ERR user_script:1: Cannot serialise function: type not supported script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode({function() end})",
                "-ERR user_script:1: Cannot serialise function: type not supported script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode(coroutine.create(function() end))",
                "-ERR user_script:1: Cannot serialise thread: type not supported script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode()",
                "-ERR user_script:1: bad argument #1 to 'encode' (expected 1 argument) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode(1,2)",
                "-ERR user_script:1: bad argument #1 to 'encode' (expected 1 argument) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode({[true]=1})",
                "-ERR user_script:1: Cannot serialise boolean: table key must be a number or string script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode({[{}]=1})",
                "-ERR user_script:1: Cannot serialise table: table key must be a number or string script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return cjson.encode({[1.5]=1})", "$9\r\n{\"1.5\":1}\r\n"),
    SCRIPT_CASE("return cjson.encode({[0]=1})", "$7\r\n{\"0\":1}\r\n"),
    SCRIPT_CASE("return cjson.encode({[-1]=1})", "$8\r\n{\"-1\":1}\r\n"),
    SCRIPT_CASE("return cjson.encode({1,2,nil,4})", "$12\r\n[1,2,null,4]\r\n"),
    SCRIPT_CASE("return cjson.encode(cjson.null)", "$4\r\nnull\r\n"),
    SCRIPT_CASE("return cjson.encode(nil)", "$4\r\nnull\r\n"),
    SCRIPT_CASE("return cjson.encode(true)", "$4\r\ntrue\r\n"),
    SCRIPT_CASE("return cjson.encode('x')", "$3\r\n\"x\"\r\n"),
    SCRIPT_CASE("return cjson.encode(1e100)", "$6\r\n1e+100\r\n"),
    SCRIPT_CASE("return cjson.encode(123456789012345678)", "$19\r\n1.2345678901235e+17\r\n"),
    SCRIPT_CASE("return cjson.encode(0.1)", "$3\r\n0.1\r\n"),
    SCRIPT_CASE("return cjson.encode(1e15)", "$5\r\n1e+15\r\n"),
    SCRIPT_CASE("return cjson.encode(-0)", "$2\r\n-0\r\n"),
    SCRIPT_CASE("return cjson.encode(100)", "$3\r\n100\r\n"),
    SCRIPT_CASE("return cjson.encode(\"\\0\\1\\8\\9\\10\\11\\12\\13\\31\\32\\34\\47\\92\\127\\128\\255\")",
                "$51\r\n\"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\/\\\\\\u007f\200\377\"\r\n"),
    SCRIPT_CASE("local t={} for i=1,1001 do t={t} end return cjson.encode(t)",
                "-ERR user_script:1: Cannot serialise, excessive nesting (1001) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("local t={} for i=1,999 do t={t} end return #cjson.encode(t)", ":2000\r\n"),
    SCRIPT_CASE("local t={} for i=1,1000 do t={t} end return #cjson.encode(t)",
                "-ERR user_script:1: Cannot serialise, excessive nesting (1001) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.encode_max_depth(3) local ok,e=pcall(cjson.encode,{{{{}}}}) cjson.encode_max_depth(1000) return e",
                "$39\r\nCannot serialise, excessive nesting (4)\r\n"),
    SCRIPT_CASE("cjson.encode_max_depth(2147483647) local t={} for i=1,100000 do t={t} end local ok,e=pcall(cjson.encode,t) "
                "cjson.encode_max_depth(1000) return ok",
                "$-1\r\n"),
    SCRIPT_CASE("return cjson.encode(setmetatable({1,2},{__index=function() return 1 end}))", "$5\r\n[1,2]\r\n"),
    SCRIPT_CASE("return cjson.encode({{1,2},{a={b=1}}})", "$21\r\n[[1,2],{\"a\":{\"b\":1}}]\r\n"),
    SCRIPT_CASE("return cjson.encode({1,\"a\",true,false,cjson.null})", "$23\r\n[1,\"a\",true,false,null]\r\n"),
    SCRIPT_CASE("return cjson.decode('[1,2,3]')", "*3\r\n:1\r\n:2\r\n:3\r\n"),
    SCRIPT_CASE("return cjson.decode('{\"a\":1}').a", ":1\r\n"),
    SCRIPT_CASE("return cjson.decode('{\"a\":[1,{\"b\":2}]}').a[2].b", ":2\r\n"),
    SCRIPT_CASE("cjson.decode('')",
                "-ERR user_script:1: Expected value but found T_END at character 1 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode(' ')",
                "-ERR user_script:1: Expected value but found T_END at character 2 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('[1,')",
                "-ERR user_script:1: Expected value but found T_END at character 4 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('[1,]')",
                "-ERR user_script:1: Expected value but found T_ARR_END at character 4 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('[,]')",
                "-ERR user_script:1: Expected value but found T_COMMA at character 2 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('[1 2]')",
                "-ERR user_script:1: Expected comma or array end but found T_NUMBER at character 4 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('{\"a\"}')",
                "-ERR user_script:1: Expected colon but found T_OBJ_END at character 5 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('{\"a\":}')",
                "-ERR user_script:1: Expected value but found T_OBJ_END at character 6 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('{\"a\":1,}')",
                "-ERR user_script:1: Expected object key string but found T_OBJ_END at character 8 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('{\"a\":1 \"b\"}')",
                "-ERR user_script:1: Expected comma or object end but found T_STRING at character 8 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('{a:1}')",
                "-ERR user_script:1: Expected object key string but found invalid token at character 2 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('{1:1}')",
                "-ERR user_script:1: Expected object key string but found T_NUMBER at character 2 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('{')",
                "-ERR user_script:1: Expected object key string but found T_END at character 2 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('\"abc')",
                "-ERR user_script:1: Expected value but found unexpected end of string at character 5 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('1 2')",
                "-ERR user_script:1: Expected the end but found T_NUMBER at character 3 script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("cjson.decode('tru')",
                "-ERR user_script:1: Expected value but found invalid token at character 1 script: {sha}, on @user_script:1."
                "\r\n"),
    SCRIPT_CASE("cjson.decode('nul')",
                "-ERR user_script:1: Expected value but found invalid token at character 1 script: {sha}, on @user_script:1."
                "\r\n"),
    SCRIPT_CASE("cjson.decode('nulll')",
                "-ERR user_script:1: Expected the end but found invalid token at character 5 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('truefalse')",
                "-ERR user_script:1: Expected the end but found T_BOOLEAN at character 5 script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("cjson.decode('@')",
                "-ERR user_script:1: Expected value but found invalid token at character 1 script: {sha}, on @user_script:1."
                "\r\n"),
    SCRIPT_CASE("cjson.decode('[1}')",
                "-ERR user_script:1: Expected comma or array end but found T_OBJ_END at character 3 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode(']')",
                "-ERR user_script:1: Expected value but found T_ARR_END at character 1 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode(':')",
                "-ERR user_script:1: Expected value but found T_COLON at character 1 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('-')",
                "-ERR user_script:1: Expected value but found invalid number at character 1 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('-x')",
                "-ERR user_script:1: Expected value but found invalid number at character 1 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('.5')",
                "-ERR user_script:1: Expected value but found invalid token at character 1 script: {sha}, on @user_script:1."
                "\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('5.'))", "$1\r\n5\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('1e5'))", "$6\r\n100000\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('-0'))", "$2\r\n-0\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('0x1F'))", "$2\r\n31\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('-0x1F'))", "$3\r\n-31\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('01'))", "$1\r\n1\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('inf'))", "$3\r\ninf\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('Infinity'))", "$3\r\ninf\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('-inf'))", "$4\r\n-inf\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('nan'))", "$3\r\nnan\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('NaN'))", "$3\r\nnan\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('+1'))", "$1\r\n1\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('1e999'))", "$3\r\ninf\r\n"),
    SCRIPT_CASE("cjson.decode('infx')",
                "-ERR user_script:1: Expected the end but found invalid token at character 4 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('nay')",
                "-ERR user_script:1: Expected value but found invalid token at character 1 script: {sha}, on @user_script:1."
                "\r\n"),
    SCRIPT_CASE("cjson.decode('1x')",
                "-ERR user_script:1: Expected the end but found invalid token at character 2 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode_invalid_numbers(false) local t={} for i,s in "
                "ipairs({'0x1F','01','inf','nan','+1','-inf','-01','1','-1','0','-0','0.5','-nan'}) do local "
                "ok,e=pcall(cjson.decode,s) t[i]=tostring(e) end cjson.decode_invalid_numbers(true) return t",
                "*13\r\n$54\r\nExpected value but found invalid number at character 1\r\n$54\r\nExpected value but found "
                "invalid number at character 1\r\n$53\r\nExpected value but found invalid token at character 1\r\n$53\r\n"
                "Expected value but found invalid token at character 1\r\n$53\r\nExpected value but found invalid token at "
                "character 1\r\n$54\r\nExpected value but found invalid number at character 1\r\n$54\r\nExpected value but "
                "found invalid number at character 1\r\n$1\r\n1\r\n$2\r\n-1\r\n$1\r\n0\r\n$2\r\n-0\r\n$3\r\n0.5\r\n$54\r\n"
                "Expected value but found invalid number at character 1\r\n"),
    SCRIPT_CASE("return cjson.decode([[\"\\\\u0041\\\\u00e9\\\\u20ac\\\\ud83d\\\\ude00\\\\n\\\\t\\\\/\\\\\"\\\\\\\\\"]])",
                "-ERR user_script:1: Expected the end but found invalid token at character 49 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode([[\"\\\\ud83d\"]])", "$-1\r\n"),
    SCRIPT_CASE("cjson.decode([[\"\\\\ude00\"]])", "$-1\r\n"),
    SCRIPT_CASE("cjson.decode([[\"\\\\ud83d\\\\u0041\"]])", "$-1\r\n"),
    SCRIPT_CASE("cjson.decode([[\"ab\\\\u00g0\"]])", "$-1\r\n"),
    SCRIPT_CASE("cjson.decode([[\"ab\\\\x\"]])", "$-1\r\n"),
    SCRIPT_CASE("cjson.decode([[\"ab\\\\]])",
                "-ERR user_script:1: Expected value but found unexpected end of string at character 6 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return cjson.decode([[\"\\\\u0000\"]])", "$6\r\n\\u0000\r\n"),
    SCRIPT_CASE("return cjson.decode(\"\\\"a\\nb\\1\\\"\")", "$4\r\na\nb\001\r\n"),
    SCRIPT_CASE("cjson.decode(\"1\\0\")",
                "-ERR user_script:1: JSON parser does not support UTF-16 or UTF-32 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode(\"\\0\")",
                "-ERR user_script:1: Expected value but found T_END at character 1 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode(\"\\0\\0\")",
                "-ERR user_script:1: JSON parser does not support UTF-16 or UTF-32 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return cjson.decode(\"123\\0abc\")", ":123\r\n"),
    SCRIPT_CASE("return cjson.decode(\"\\\"12\\0abc\\\"\")",
                "-ERR user_script:1: Expected value but found unexpected end of string at character 4 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode()",
                "-ERR user_script:1: bad argument #1 to 'decode' (expected 1 argument) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode(nil)",
                "-ERR user_script:1: bad argument #1 to 'decode' (string expected, got nil) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return cjson.decode(5)", ":5\r\n"),
    SCRIPT_CASE("cjson.decode({})",
                "-ERR user_script:1: bad argument #1 to 'decode' (string expected, got table) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("cjson.decode('1','2')",
                "-ERR user_script:1: bad argument #1 to 'decode' (expected 1 argument) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return cjson.decode('null')", "$-1\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('null'))", "$15\r\nuserdata: (nil)\r\n"),
    SCRIPT_CASE("return tostring(cjson.decode('[null]')[1]==cjson.null)", "$4\r\ntrue\r\n"),
    SCRIPT_CASE("return cjson.decode('true')", ":1\r\n"),
    SCRIPT_CASE("return cjson.decode('{\"a\":1,\"a\":2}').a", ":2\r\n"),
    SCRIPT_CASE("return cjson.decode('\\t\\n\\r [ ]')", "*0\r\n"),
    SCRIPT_CASE("return cjson.decode(string.rep('[',1000)..string.rep(']',1000)) ~= nil", ":1\r\n"),
    SCRIPT_CASE("return cjson.decode(string.rep('[',1001)..string.rep(']',1001))",
                "-ERR user_script:1: Found too many nested data structures (1001) at character 1001 script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return cjson.decode(string.rep('[',1000))",
                "-ERR user_script:1: Expected value but found T_END at character 1001 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("local ok,e=pcall(cjson.decode,string.rep('{\"a\":',1001)) return e",
                "$62\r\nFound too many nested data structures (1001) at character 5001\r\n"),
    SCRIPT_CASE("local c=cjson.new() c.encode_max_depth(2) return "
                "{c.encode_max_depth(),cjson.encode_max_depth(),type(c.null)}",
                "*3\r\n:2\r\n:1000\r\n$8\r\nuserdata\r\n"),
    SCRIPT_CASE("local c=cjson.new() c.x=1 return c.x", ":1\r\n"),
    SCRIPT_CASE("return {cjson._NAME,cjson._VERSION}", "*2\r\n$5\r\ncjson\r\n$5\r\n2.1.0\r\n"),
    SCRIPT_CASE("return cmsgpack.pack(cjson.null)", "$1\r\n\300\r\n"),
};

static void cjson_reads_and_writes_as_in_redis(void **state)
{
    assert_int_equal(script_cases_run(cases, sizeof(cases) / sizeof(cases[0]), 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cjson_reads_and_writes_as_in_redis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
