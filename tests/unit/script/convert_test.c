#include "support/unit.h"

#include "support/script_cases.h"

static const struct script_case cases_2[] = {
    SCRIPT_CASE("return {err=\"E\"}", "-E\r\n"),
    SCRIPT_CASE("return {err=\"E x y\"}", "-E x y\r\n"),
    SCRIPT_CASE("return {ok=\"a\"}", "+a\r\n"),
    SCRIPT_CASE("return {ok=1}", "*0\r\n"),
    SCRIPT_CASE("return {err=1}", "*0\r\n"),
    SCRIPT_CASE("return nil", "$-1\r\n"),
    SCRIPT_CASE("return true", ":1\r\n"),
    SCRIPT_CASE("return false", "$-1\r\n"),
    SCRIPT_CASE("return 3.99", ":3\r\n"),
    SCRIPT_CASE("return -3.99", ":-3\r\n"),
    SCRIPT_CASE("return 1e30", ":-9223372036854775808\r\n"),
    SCRIPT_CASE("return 0/0", ":-9223372036854775808\r\n"),
    SCRIPT_CASE("return {1,2,nil,4}", "*2\r\n:1\r\n:2\r\n"),
    SCRIPT_CASE("return {1,{2,{3}}}", "*2\r\n:1\r\n*2\r\n:2\r\n*1\r\n:3\r\n"),
    SCRIPT_CASE("return {double=3.5}", "$3\r\n3.5\r\n"),
    SCRIPT_CASE("return {double=\"x\"}", "*0\r\n"),
    SCRIPT_CASE("return {map={a=1}}", "*2\r\n$1\r\na\r\n:1\r\n"),
    SCRIPT_CASE("return {set={a=1}}", "*1\r\n$1\r\na\r\n"),
    SCRIPT_CASE("return {big_number=\"123\"}", "$3\r\n123\r\n"),
    SCRIPT_CASE("return {verbatim_string={string=\"x\",format=\"txt\"}}", "$1\r\nx\r\n"),
    SCRIPT_CASE("return 1,2,3", ":1\r\n"),
    SCRIPT_CASE("return {1,2,3,x=5}", "*3\r\n:1\r\n:2\r\n:3\r\n"),
    SCRIPT_CASE("return {1.9,\"a\",true,false,3}", "*5\r\n:1\r\n$1\r\na\r\n:1\r\n$-1\r\n:3\r\n"),
    SCRIPT_CASE("return {err=\"a\\r\\nb\"}", "-a  b\r\n"),
    SCRIPT_CASE("return {ok=\"a\\r\\nb\"}", "+a  b\r\n"),
    SCRIPT_CASE("return {err=\"\"}", "-\r\n"),
    SCRIPT_CASE("return {err=\"ERR a\",ok=\"b\"}", "-ERR a\r\n"),
    SCRIPT_CASE("return {double=1/0}", "$3\r\ninf\r\n"),
    SCRIPT_CASE("return {double=0/0}", "$3\r\nnan\r\n"),
    SCRIPT_CASE("return {double=1e20}", "$5\r\n1e+20\r\n"),
    SCRIPT_CASE("return {double=0.1}", "$3\r\n0.1\r\n"),
    SCRIPT_CASE("return {map={a=1,b={1,2}}}", "*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*2\r\n:1\r\n:2\r\n"),
    SCRIPT_CASE("return {map={[1]=2}}", "*2\r\n:1\r\n:2\r\n"),
    SCRIPT_CASE("return {map={[1.5]=2}}", "*2\r\n:1\r\n:2\r\n"),
    SCRIPT_CASE("return {map={}}", "*0\r\n"),
    SCRIPT_CASE("return {set={a=1,[3]=true}}", "*2\r\n$1\r\na\r\n:3\r\n"),
    SCRIPT_CASE("return {set={}}", "*0\r\n"),
    SCRIPT_CASE("return {set=5}", "*0\r\n"),
    SCRIPT_CASE("return {map=5}", "*0\r\n"),
    SCRIPT_CASE("return {big_number=5}", "*0\r\n"),
    SCRIPT_CASE("return {big_number=\"1\\r\\n2\"}", "$4\r\n1  2\r\n"),
    SCRIPT_CASE("return {verbatim_string={string=\"x\",format=\"markdown\"}}", "$1\r\nx\r\n"),
    SCRIPT_CASE("return {verbatim_string={string=\"x\",format=\"m\"}}", "$1\r\nx\r\n"),
    SCRIPT_CASE("return {verbatim_string={string=\"x\"}}", "*0\r\n"),
    SCRIPT_CASE("return {verbatim_string={format=\"x\"}}", "*0\r\n"),
    SCRIPT_CASE("return {verbatim_string={string=5,format=\"txt\"}}", "*0\r\n"),
    SCRIPT_CASE("return {verbatim_string=5}", "*0\r\n"),
    SCRIPT_CASE("return {verbatim_string={string=\"a\\r\\nb\",format=\"txt\"}}", "$4\r\na\r\nb\r\n"),
    SCRIPT_CASE("return {1,{2,{3,{4}}}}", "*2\r\n:1\r\n*2\r\n:2\r\n*2\r\n:3\r\n*1\r\n:4\r\n"),
    SCRIPT_CASE("return 0.1+0.2", ":0\r\n"),
};

static const struct script_case cases_3[] = {
    SCRIPT_CASE("return {err=\"E\"}", "-E\r\n"),
    SCRIPT_CASE("return {err=\"E x y\"}", "-E x y\r\n"),
    SCRIPT_CASE("return {ok=\"a\"}", "+a\r\n"),
    SCRIPT_CASE("return {ok=1}", "*0\r\n"),
    SCRIPT_CASE("return {err=1}", "*0\r\n"),
    SCRIPT_CASE("return nil", "_\r\n"),
    SCRIPT_CASE("return true", ":1\r\n"),
    SCRIPT_CASE("return false", "_\r\n"),
    SCRIPT_CASE("return 3.99", ":3\r\n"),
    SCRIPT_CASE("return -3.99", ":-3\r\n"),
    SCRIPT_CASE("return 1e30", ":-9223372036854775808\r\n"),
    SCRIPT_CASE("return 0/0", ":-9223372036854775808\r\n"),
    SCRIPT_CASE("return {1,2,nil,4}", "*2\r\n:1\r\n:2\r\n"),
    SCRIPT_CASE("return {1,{2,{3}}}", "*2\r\n:1\r\n*2\r\n:2\r\n*1\r\n:3\r\n"),
    SCRIPT_CASE("return {double=3.5}", ",3.5\r\n"),
    SCRIPT_CASE("return {double=\"x\"}", "*0\r\n"),
    SCRIPT_CASE("return {map={a=1}}", "%1\r\n$1\r\na\r\n:1\r\n"),
    SCRIPT_CASE("return {set={a=1}}", "~1\r\n$1\r\na\r\n"),
    SCRIPT_CASE("return {big_number=\"123\"}", "(123\r\n"),
    SCRIPT_CASE("return {verbatim_string={string=\"x\",format=\"txt\"}}", "=5\r\ntxt:x\r\n"),
    SCRIPT_CASE("return 1,2,3", ":1\r\n"),
    SCRIPT_CASE("return {1,2,3,x=5}", "*3\r\n:1\r\n:2\r\n:3\r\n"),
    SCRIPT_CASE("return {1.9,\"a\",true,false,3}", "*5\r\n:1\r\n$1\r\na\r\n:1\r\n_\r\n:3\r\n"),
    SCRIPT_CASE("return {err=\"a\\r\\nb\"}", "-a  b\r\n"),
    SCRIPT_CASE("return {ok=\"a\\r\\nb\"}", "+a  b\r\n"),
    SCRIPT_CASE("return {err=\"\"}", "-\r\n"),
    SCRIPT_CASE("return {err=\"ERR a\",ok=\"b\"}", "-ERR a\r\n"),
    SCRIPT_CASE("return {double=1/0}", ",inf\r\n"),
    SCRIPT_CASE("return {double=0/0}", ",nan\r\n"),
    SCRIPT_CASE("return {double=1e20}", ",1e+20\r\n"),
    SCRIPT_CASE("return {double=0.1}", ",0.1\r\n"),
    SCRIPT_CASE("return {map={a=1,b={1,2}}}", "%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*2\r\n:1\r\n:2\r\n"),
    SCRIPT_CASE("return {map={[1]=2}}", "%1\r\n:1\r\n:2\r\n"),
    SCRIPT_CASE("return {map={[1.5]=2}}", "%1\r\n:1\r\n:2\r\n"),
    SCRIPT_CASE("return {map={}}", "%0\r\n"),
    SCRIPT_CASE("return {set={a=1,[3]=true}}", "~2\r\n$1\r\na\r\n:3\r\n"),
    SCRIPT_CASE("return {set={}}", "~0\r\n"),
    SCRIPT_CASE("return {set=5}", "*0\r\n"),
    SCRIPT_CASE("return {map=5}", "*0\r\n"),
    SCRIPT_CASE("return {big_number=5}", "*0\r\n"),
    SCRIPT_CASE("return {big_number=\"1\\r\\n2\"}", "(1  2\r\n"),
    SCRIPT_CASE("return {verbatim_string={string=\"x\",format=\"markdown\"}}", "=5\r\nmar:x\r\n"),
    SCRIPT_CASE("return {verbatim_string={string=\"x\",format=\"m\"}}", "=5\r\nm  :x\r\n"),
    SCRIPT_CASE("return {verbatim_string={string=\"x\"}}", "*0\r\n"),
    SCRIPT_CASE("return {verbatim_string={format=\"x\"}}", "*0\r\n"),
    SCRIPT_CASE("return {verbatim_string={string=5,format=\"txt\"}}", "*0\r\n"),
    SCRIPT_CASE("return {verbatim_string=5}", "*0\r\n"),
    SCRIPT_CASE("return {verbatim_string={string=\"a\\r\\nb\",format=\"txt\"}}", "=8\r\ntxt:a\r\nb\r\n"),
    SCRIPT_CASE("return {1,{2,{3,{4}}}}", "*2\r\n:1\r\n*2\r\n:2\r\n*2\r\n:3\r\n*1\r\n:4\r\n"),
    SCRIPT_CASE("return 0.1+0.2", ":0\r\n"),
};

static void values_are_converted_as_in_redis_in_resp2(void **state)
{
    assert_int_equal(script_cases_run(cases_2, sizeof(cases_2) / sizeof(cases_2[0]), 2), 0);
}

static void values_are_converted_as_in_redis_in_resp3(void **state)
{
    assert_int_equal(script_cases_run(cases_3, sizeof(cases_3) / sizeof(cases_3[0]), 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_converted_as_in_redis_in_resp2),
        cmocka_unit_test(values_are_converted_as_in_redis_in_resp3),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
